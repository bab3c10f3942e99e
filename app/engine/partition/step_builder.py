"""Builds a step from outcomes, records and expired ids, within bounds."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from app.engine.ingest.ingest import Ingest
from app.engine.ingest.policy import Policy
from app.engine.partition.replanning import Replanning
from app.engine.steps.context import PartitionContext
from app.engine.steps.downgrade import Downgrade
from app.engine.steps.outcome_handler import OutcomeHandler
from app.engine.steps.outcomes import Outcome
from app.engine.steps.step import STEP_BYTES, Step
from app.kafka import fast_path
from app.kafka.fast_path.interface import ONE_BY_ONE, next_length
from punctual.contract.record import Record
from punctual.contract.request import Refusal
from tables import Changes

#: Records decoded at a time (about 2 ms): messages that fall due during that time have to wait.
_SLICE = 200
#: A slice ends earlier when it has taken `_SLICE_S`: some records cost a hundred times as much as others. The time is
#: read after every `_FEW` records, and after each record above `_LARGE` bytes.
_SLICE_S, _FEW, _LARGE = 0.004, 4, 64 * 1024
#: Maximum number of requests in one call of the fast path.
_MANY = fast_path.chosen.REQUESTS_PER_CALL
#: While messages are being delivered, slices and steps are shorter by this factor.
_SHORTER = 4
#: While a partition is full, a step has at most `_TIMES` the bytes of its outcomes (about as many records as outcomes),
#: or `_LEAST_BYTES`. Removals make room, so they must not wait for many records.
_TIMES, _LEAST_BYTES = 3, 32 * 1024
_STEP_OUTCOMES = 20_000
#: A step takes no more outcomes once it has spent this long on outcomes.
_OUTCOMES_S = 0.01
#: Per step and kind, at least this many ids may be forgotten, and at most this many bytes; and the bytes of a
#: tombstone besides its id.
_EXPIRE, _EXPIRE_BYTES, _TOMBSTONE_BYTES = 1_000, 128 * 1024, 16

Chunk = tuple[Sequence[Record], "asyncio.Future[None]"]


class TopicPartitions(Protocol):
    """The destination topics of our own cluster."""

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it does not exist."""
        ...

    async def learn(self, topics: Iterable[str]) -> None:
        """Look up `topics` on the cluster."""
        ...


class _Slice:
    """Iterates over records until `seconds` have passed."""

    def __init__(self, time: Callable[[], float], seconds: float) -> None:
        self._time, self._seconds = time, seconds
        #: The number of records that were iterated.
        self.taken = 0

    def __call__(self, records: Sequence[Record]) -> Iterator[Record]:
        until = self._time() + self._seconds
        for self.taken, record in enumerate(records, 1):
            yield record
            if (not self.taken % _FEW or len(record.value or b"") > _LARGE) and self._time() >= until:
                break


class StepBuilder:
    """Builds the steps of a partition from its inbox and its outcomes, from one start to the next."""

    def __init__(
        self,
        context: PartitionContext,
        policy: Policy,
        topics: TopicPartitions,
        inbox: deque[Chunk],
        outcomes: deque[Outcome],
        *,
        keeps: bool = False,
    ) -> None:
        """Take from `inbox` and `outcomes`; find destinations in `topics`. With `keeps`, steps keep their records."""
        self._keeps = keeps
        self._context, self._policy, self._topics = context, policy, topics
        self._inbox, self._outcomes = inbox, outcomes
        self._forwards = context.settings.topics.forwards
        self._ingest, self._apply = Ingest(context, policy), OutcomeHandler(context).apply
        self._most = STEP_BYTES
        #: The number of records to offer to the fast path next, at most _MANY.
        self._many = _MANY
        self._replanning = Replanning(context)
        #: Background rewrites of rows, some rows with each step.
        self._rewrites = list[Downgrade | Replanning]()
        if context.settings.engine.row_version:
            busy = context.claims.__contains__
            self._rewrites.append(Downgrade(context.number, context.settings.engine.row_version, context.store, busy))

    @property
    def apply(self) -> Callable[[Step, Outcome], None]:
        """The function that adds the effects of an outcome to a step."""
        return self._apply

    @property
    def owes(self) -> bool:
        """Whether the next step has a confirmation for the cold tier."""
        return bool(self._context.cold.owed)

    def replan(self, bound: bytes | None) -> "asyncio.Future[None] | None":
        """Plan series by the zone rules of this worker in the next steps: from `bound` on, or with None, the others.

        The returned future is done when they are planned. Returns None if there is no work.
        """
        planned = self._replanning.finish() if bound is None else self._replanning.begin(bound)
        if planned is not None and self._replanning not in self._rewrites:
            self._rewrites.append(self._replanning)
        return planned

    async def build(self, step: Step, again: Callable[[], None], *, full: bool = False) -> "list[asyncio.Future[None]]":
        """Add outcomes and records to a step, within bounds; return the futures of the records that it has taken.

        Calls `again` if there is more for another step. If the partition is `full`, the step takes fewer records.
        """
        if self.owes:
            self._context.cold.settle_debts(step)
        time = asyncio.get_running_loop().time
        until = time() + _OUTCOMES_S
        for _ in range(min(len(self._outcomes), _STEP_OUTCOMES)):
            self._apply(step, self._outcomes.popleft())
            if step.size >= STEP_BYTES or time() >= until:
                break
        done, self._most = [], max(_LEAST_BYTES, _TIMES * step.size) if full else STEP_BYTES
        while self._inbox and step.size < self._limit:
            records, future = self._inbox.popleft()
            taken = await self._ingest_records(step, records)
            if self._keeps:
                step.read = [*step.read, records[:taken]]
            if taken < len(records):
                self._inbox.appendleft((records[taken:], future))
                break
            done.append(future)
        more = bool(self._inbox or self._outcomes or self.owes)
        if step.size < 2 * STEP_BYTES:  # without a large row, there is room for expired ids
            more |= self._expire(step)
            more |= self._rewrite(step)
        if more:
            again()
        return done

    async def _ingest_records(self, step: Step, records: Sequence[Record]) -> int:
        """Ingest records in slices that leave time for deliveries; return how many fit into the step."""
        begin, forwarded = 0, records[0].topic == self._forwards
        time = asyncio.get_running_loop().time
        while begin < len(records):
            limit, many = self._limit, min(begin + min(self._many, _MANY // self._shorter), len(records))
            plain = self._ingest.take_plain(step, records, begin, many, self._topics.partitions, limit)
            self._many = next_length(plain)
            if plain:
                await asyncio.sleep(0)
                begin += plain
                if step.size >= limit or begin == len(records):
                    return begin
                if begin == many:
                    continue
            end = min(begin + (ONE_BY_ONE if plain else _SLICE // self._shorter), len(records))
            each = _Slice(time, _SLICE_S / self._shorter)
            reads = self._ingest.read(step, records[begin:end], each)
            end = begin + each.taken
            # Many records share few destinations, so each destination is checked once.
            wanted = {
                (request.cluster, request.to, request.partition or 0)
                for _, request in reads
                if not isinstance(request, Refusal) and request.to
            }
            # A topic may have got more partitions since its last look-up.
            unknown = {topic for cluster, topic, n in wanted if cluster is None and self._topics.partitions(topic) <= n}
            if unknown:
                await self._topics.learn(unknown)
            if not all(self._policy.is_known(cluster, topic) for cluster, topic, _ in wanted):
                reads = await self._policy.admitted(reads, forwarded=forwarded)
            taken = self._ingest.apply(step, reads, self._topics.partitions, limit)
            await asyncio.sleep(0)
            begin = end - (len(reads) - taken)
            if taken < len(reads) or step.size >= limit:  # a step has room for only one large row
                return begin
        return begin

    @property
    def _limit(self) -> int:
        """The maximum size of the step in bytes, at the moment."""
        return min(self._most, STEP_BYTES // self._shorter)

    @property
    def _shorter(self) -> int:
        """The factor by which slices and steps are shorter now: sends in flight wait for slices of all partitions."""
        return _SHORTER if self._context.claims else 1

    def _rewrite(self, step: Step) -> bool:
        """Add the next background rewrites to a step while it has room; return whether there may be more."""
        more = False
        for rewrite in [*self._rewrites]:
            if rewrite.over:
                self._rewrites.remove(rewrite)
            elif step.size < STEP_BYTES:
                rewrite.put_into(step)
                more = True
        return more

    def _expire(self, step: Step) -> bool:
        """Forget expired ids, faster than steps add new ones; return whether there may be more."""
        store, changes, now_ms, more = self._context.store, step.changes, step.broker_ms, False
        if store.commands.count:
            limit = max(_EXPIRE, 2 * len(changes.commands))
            ended = store.commands.expired(now_ms, limit) + self._context.memory.spent(limit)
            more = _forget(changes, changes.commands, ended, limit)
        for marks, kind in ((changes.delivered, store.delivered), (changes.cold_marks, store.cold_marks)):
            if kind.count:
                limit = max(_EXPIRE, 2 * len(marks))
                more |= _forget(changes, marks, kind.expired(now_ms, limit), limit)
        return more


def _forget(changes: Changes, marks: dict[str, Any], expired: Iterable[str], limit: int) -> bool:
    """Add tombstones for `expired` ids to `changes`, at most `limit`; return whether there may be more."""
    most = changes.size + _EXPIRE_BYTES
    for count, id_ in enumerate(expired, 1):
        marks.setdefault(id_, None)
        changes.size += len(id_.encode()) + _TOMBSTONE_BYTES
        if changes.size >= most or count == limit:
            return True
    return False
