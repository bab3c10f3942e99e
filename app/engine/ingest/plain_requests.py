"""Conversion of plain requests to rows, many per call, on the fast path (app/kafka/fast_path)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.engine.ingest.policy import AHEAD_MS, Policy
from app.engine.steps.context import PartitionContext
from app.engine.steps.step import Step
from app.kafka import fast_path
from app.kafka.fast_path.interface import InputRules, RequestBounds
from punctual.contract import native
from punctual.contract.record import Record
from tables import Position
from tables.entry import VERSION


class PlainRequests:
    """Takes in the plain requests with new ids of one partition, and leaves all other records."""

    def __init__(self, context: PartitionContext, policy: Policy, crcs: Mapping[str, int]) -> None:
        """Serve the partition of a context; `policy` says which destinations are allowed."""
        settings = context.settings
        self._store, self._cold, self._policy = context.store, context.cold, policy
        self._rules: dict[str, Any] = {}
        if policy.quotas is None:
            self._rules = {
                topic: fast_path.chosen.prepared(
                    InputRules(
                        topic,
                        context.number,
                        crcs[topic],
                        list(settings.topics.inputs),
                        settings.topics.partitions,
                        context.limits.row,
                    )
                )
                for topic in settings.topics.inputs
                if settings.topics.dialect(topic).decode is native.decode
            }

    def take(
        self,
        step: Step,
        records: Sequence[Record],
        begin: int,
        end: int,
        before: Position,
        stamp_ms: int,
        partitions_of: Callable[[str], int],
        room: int,
    ) -> tuple[int, int]:
        """Add the rows of `records[begin:end]` to `step`, up to the first record that is not plain or has a known id.

        `before` is the position of their topic, `stamp_ms` the largest stamp so far, `room` the maximum size in bytes.
        Return how many records were taken (0 if a destination must be looked up), and the largest stamp then.
        """
        rules = self._rules.get(records[begin].topic)
        if rules is None or records[begin].offset < before.offset or not self._may_take(step):
            return 0, stamp_ms
        topic, broker_ms = records[begin].topic, step.broker_ms
        allowed, furthest_ms = self._policy.allowed_so_far(topic), self._policy.furthest_ms(broker_ms)
        latest_ms = broker_ms + AHEAD_MS
        bounds = RequestBounds(before.base, allowed, stamp_ms, latest_ms, furthest_ms, step.now_ms, room)
        while True:
            run = fast_path.chosen.requests(rules, records, begin, end, bounds)
            if not run.taken:
                return 0, stamp_ms
            if not all(partitions_of(to) > 0 and self._policy.is_known(None, to) for to in run.destinations):
                return 0, stamp_ms
            known = self._known(step, run.ids, self._store.find_keys(run.id_keys))
            if known is None:
                step.put_plain(run.ids, run.row_keys, run.rows, run.size)
                step.tell_all("accepted", run.events)
                return run.taken, run.stamp_ms
            end = begin + known

    def _may_take(self, step: Step) -> bool:
        """Return whether rows and commands alone can make an id known: no dedupe, no cold tier, no old row version."""
        deliveries = step.changes.delivered or self._store.delivered.count
        return step.version == VERSION and not (deliveries or self._cold.there)

    def _known(self, step: Step, ids: Sequence[str], row_keys: Sequence[bytes | None]) -> int | None:
        """Return the index of the first id that is not new, None if all are new."""
        there = next(place for place, key in enumerate(row_keys) if key is not None) if any(row_keys) else None
        places = (there, step.first_known(ids), self._store.commands.first_of(ids))
        return min((place for place in places if place is not None), default=None)
