"""One partition without Kafka: records and outcomes go in, steps are applied to a real store, events come out."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from app.engine.ingest.ingest import Ingest
from app.engine.ingest.policy import Policy
from app.engine.ingest.quotas import Quotas, namespace_rule
from app.engine.partition.claims import Claims
from app.engine.steps.context import PartitionContext
from app.engine.steps.occurrences import number_of
from app.engine.steps.outcome_handler import OutcomeHandler
from app.engine.steps.outcomes import Delivered, Outcome
from app.engine.steps.step import OutgoingRecord, Step
from app.engine.topics.internal_topics import TopicLimits
from app.settings.settings import Settings
from punctual.contract import native, request
from punctual.contract.record import Record
from tables import PartitionStore, native_extension
from tests.harness.account import life_of
from tests.punctual.contract.records import NOW, FakeRecord, Log

ENDINGS = {"delivered", "cancelled", "replaced", "dropped", "rejected", "parked"}
BROAD = {"DELAY_DESTINATIONS": "*", "DELAY_PARTITIONS": "4", "DELAY_CLUSTERS": "emea=127.0.0.1:9"}
Event = dict[str, Any]

_MIB = 1 << 20


class Workbench:
    """Runs ingest and outcomes of a partition as its writer does; a step is applied as soon as it is made."""

    def __init__(self, path: Path, number: int = 0, **env: str) -> None:
        """Open the store at `path`."""
        self.settings = Settings.from_env({**BROAD, **env})
        self.number, self.path, self.limits = (
            number,
            path,
            TopicLimits(_MIB, _MIB, _MIB, cold=bool(self.settings.retention.horizon_ms)),
        )
        self.now_ms = NOW
        #: How far the worker's clock is ahead of the brokers'.
        self.ahead_ms = 0
        #: Whether the next step ends the work that a step has left open.
        self.pays = True
        self.partitions_of: Callable[[str], int] = lambda _: 8
        self.events: list[Event] = []
        self.sends: list[OutgoingRecord] = []
        self.changelog: list[tuple[bytes, bytes | None]] = []
        self.log = Log(self.settings.topics.requests, number)
        self.forwards = Log(self.settings.topics.forwards, number)
        #: The largest timestamp that partition 2 has shown.
        self._elsewhere_ms = 0
        self._others: dict[int, Log] = {}
        #: The reports of other workers about partitions, and the time of the next look at them.
        self.reports: dict[int, Any] = {}
        self.restoring = set[int]()
        self.seconds = 0.0
        self.open()

    def open(self) -> None:
        """Start without messages in flight."""
        self.store = PartitionStore(
            self.path, namespace_rule(self.settings.topics.namespaces, self.settings.topics.inputs)
        )
        self.claims = Claims()
        self.stores = {self.number: self.store}
        self.quotas = quotas = Quotas(
            self.settings.topics, self.stores, self.restoring, self.reports, lambda: self.seconds
        )
        policy = Policy(self.settings, None, quotas if self.settings.topics.quotas else None)
        context = PartitionContext.of(self.number, self.settings, self.limits, self.store, self.claims)
        self.tier, self.memory = context.cold, context.memory
        self.ingest, self.outcomes = Ingest(context, policy), OutcomeHandler(context)

    def close(self) -> None:
        """End it."""
        self.store.close()

    def open_again(self) -> None:
        """Die, and begin another life."""
        self.close()
        self.open()

    # what happens ----------------------------------------------------------------------------------------------------
    def ask(self, stamp: int | None = None, /, **said: str | bytes | None) -> FakeRecord:
        """Write a request and take it in, in a step of its own."""
        record = self.log.record(self.now_ms if stamp is None else stamp, **said)
        self.run(record)
        return record

    def schedule(self, id_: str, due: int, **said: str | bytes | None) -> str:
        """Schedule a message; return the source of its request."""
        return source(self.ask(delay_id=id_, delay_to="orders", delay_at=str(due), **said))

    def command(self, op: str, id_: str, **said: str | bytes | None) -> str:
        """Send a command; return its source."""
        return source(self.ask(delay_op=op, delay_id=id_, **said))

    def from_elsewhere(self, offset: int, stamp: int, /, **said: str | bytes | None) -> FakeRecord:
        """Return the forward of a record at `offset` of partition 2, as that partition makes it."""
        asked = native.decode(Log(self.settings.topics.requests, 2, offset).record(stamp, **said))
        asked.stamp_ms = self._elsewhere_ms = max(self._elsewhere_ms, stamp)
        forward = self.forwards.record(self.now_ms)
        return replace(forward, headers=[], key=asked.id.encode(), value=request.encode(asked))

    def late(self, partition: int, stamp: int, /, **said: str | bytes | None) -> str:
        """Take in the forward of an order that was given at `stamp` in another partition; return its source."""
        log = self._others.setdefault(partition, Log(self.settings.topics.requests, partition))
        record = log.record(stamp, **said)
        asked = native.decode(record)
        if asked.asked_at_ms is not None:
            asked.stamp_ms = min(stamp, asked.asked_at_ms)
        forward = self.forwards.record(self.now_ms)
        self.run(replace(forward, headers=[], key=asked.id.encode(), value=request.encode(asked)))
        return source(record)

    def run(self, *work: Record | Outcome) -> list[Event]:
        """Put records and outcomes into one step and apply it; return the step's events."""
        step = Step(self.now_ms, self.now_ms - self.ahead_ms)
        for one in work:
            if isinstance(one, FakeRecord):
                self._take(step, [one])
            else:
                self.outcomes.apply(step, one)  # type: ignore[arg-type]
        return self.apply(step)

    def read(self, records: Sequence[Record]) -> list[Event]:
        """Take a chunk of records in, in one step."""
        step = Step(self.now_ms, self.now_ms - self.ahead_ms)
        self._take(step, records)
        return self.apply(step)

    def _take(self, step: Step, records: Sequence[Record]) -> None:
        found = self.ingest.read(step, records)
        self.ingest.apply(step, found, self.partitions_of, 1 << 30)

    def apply(self, step: Step) -> list[Event]:
        """Commit a step to the changelog and the store; messages that it has ended are no longer in flight."""
        if step.changes:
            records = list(step.changes.records(self.store.writer))
            self.changelog += records
            self.store.apply(step.changes, self.store.offset + len(records), self.store.writer, step.now_ms)
        for row in step.fired:
            self.claims.pop(row, None)
        told = self.told_by(step)
        self.events += told
        self.sends += step.sends
        if self.tier.owed and self.pays:
            step = Step(self.now_ms, self.now_ms - self.ahead_ms)
            self.tier.settle_debts(step)
            told += self.apply(step)
        return told

    @staticmethod
    def told_by(step: Step) -> list[Event]:
        """Return the events of a step."""
        return [msgspec.json.decode(raw) for told in step.events for _, raw in told]

    def claim(self, id_: str) -> bytes:
        """Begin to send a message."""
        row = self.store.find(id_)
        assert row is not None
        return self.claim_row(row)

    def claim_row(self, row: bytes) -> bytes:
        """Begin to send the message at `row`."""
        entry = self.store.entry(row)
        assert entry is not None
        self.claims[row] = entry
        return row

    def claim_plain(self, id_: str) -> bytes:
        """Start to send a message as plain ones are sent: with the kernel, its row is not decoded."""
        row = self.claim(id_)
        if native_extension.module is not None:
            self.claims.update({row: self.store.raw(row)})  # type: ignore[dict-item]
        return row

    def delivered(self, *rows: bytes, sent_ms: int | None = None) -> Delivered:
        """Return the outcome of a send that was acknowledged."""
        return Delivered([*rows], 0, "orders", 3, sent_ms or self.now_ms)

    def promote(self, id_: str, due: int, made_by: str, stamp: int | None = None, snapshot: int | None = None) -> str:
        """Send back, as the cold tier does, the message that the record `made_by` parked at `stamp`; return its source.

        One that this bench has not written came before all that it has.
        """
        known = self.now_ms if snapshot is None else snapshot
        if stamp is None:
            stamp = NOW - (int(made_by.rsplit("-", 1)[1]) >= self.log.offset)
        return self.schedule(id_, due, delay_source=made_by, delay_parked=f"{stamp},{known}")

    # outcomes --------------------------------------------------------------------------------------------------------
    def told(self, since: int = 0) -> list[tuple[str, str, str | None]]:
        """Return event, source and `by` of each event."""
        return [(event["event"], event["source"], event.get("by")) for event in self.events[since:]]

    def cold(self, since: int = 0) -> list[dict[str, str]]:
        """Return the headers of each record that the cold topic got, the writer's epoch aside."""
        records = [out for out in self.sends if out.topic == self.settings.topics.cold][since:]
        assert all(out.partition == self.number for out in records)
        said = [{name: (value or b"").decode() for name, value in out.headers} for out in records]
        assert all(headers.pop("delay-epoch") == str(self.store.writer) for headers in said)
        return said

    def pending(self) -> dict[str, int]:
        """Return the due time of each pending id that answers to commands."""
        return {e.id: int.from_bytes(row[:8], "big") for row, e in self.store.rows() if self.store.find(e.id) == row}

    def assert_balanced(self) -> None:
        """Check by the events alone that the account balances (records.md#events)."""
        accepted = {life_of(event) for event in self.events if event["event"] == "accepted"}
        ended = Counter(
            life for event, life in {(e["event"], life_of(e)) for e in self.events if e["event"] in ENDINGS}
        )
        assert all(number == 1 for number in ended.values()), ended
        assert set(ended) <= accepted
        waiting = [
            life_of({"source": entry.source, "occurrence": number_of(entry)})
            for _, entry in self.store.rows()
            if entry.url is None
        ]
        assert sorted(waiting) == sorted(accepted - set(ended))
        assert self.store.counts.total == sum(1 for _ in self.store.rows())


def source(record: Record) -> str:
    """Return the name of a record."""
    return f"{record.topic}-{record.partition}-{record.offset}"
