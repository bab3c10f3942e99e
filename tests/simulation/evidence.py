"""The records in the topics at the end of a run, and their writers."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tables import Entry, keys
from tables.entry import decode
from tests.harness.account import ENDINGS, Account
from tests.simulation.log import Batch, Record, Sent
from tests.simulation.loop import EPOCH_MS
from tests.simulation.network import CALM
from tests.simulation.worker import Worker
from tests.simulation.world import FORWARDS_MARGIN_S, World

if TYPE_CHECKING:
    from tests.simulation.workload import Ask

#: Without faults, a command is in the table after this time, and after this number of transactions.
_PROMPT_S, _TRANSACTIONS = 0.5, 4
#: And it is in the forwards, if its home is another partition.
_FORWARDED_S = 0.3
#: A partition waits this long for a topic unknown to the brokers (app/engine/ingest/destination_topics.py).
_LOOKED_FOR_S = 0.6

#: A worker's time with a partition: its name, when it was given the partition, and which.
Life = tuple[str, float, int]


class Copy(NamedTuple):
    """A delivered record, or an accepted POST."""

    record: Record
    sent: Sent
    at_ms: int
    source: str
    due_ms: int

    def __str__(self) -> str:
        """Return its place, its sender and its time."""
        at = f"{self.record.topic}-{self.record.partition}-{self.record.offset}"
        sent = f"sent by {self.sent.worker} at {self.sent.at_s:.3f} s"
        return f"{at} of {self.source} (due at {(self.due_ms - EPOCH_MS) / 1000:.3f} s, {sent})"


class Told(NamedTuple):
    """An event, and its sender."""

    event: dict[str, Any]
    sent: Sent


class Evidence:
    """Everything that was written in a run, as a read-committed reader sees it."""

    def __init__(self, world: World) -> None:
        """Read the topics."""
        self.world, self.exact = world, world.exact
        self.workers = {worker.name: worker for worker in world.workers}
        self.stores = world.owned()
        self.asks = {ask.source: ask for ask in world.asks}
        self.by_id: dict[str, list[Ask]] = defaultdict(list)
        self.told = [
            Told(json.loads(record.value or b""), sent_of(batch))
            for batch, record in self.read(world.settings.topics.events_topic)
        ]
        self.events = [told.event for told in self.told]
        pending: Counter[str] = Counter()
        for store in self.stores.values():
            pending.update({to: count for to, count in store.counts.destinations.items() if to})
        self.account = Account.of(self.events, pending)
        #: Requests for which there was no room.
        self.unadmitted = set(self._unadmitted())
        for ask in world.asks:
            if ask.source not in self.unadmitted:
                self.by_id[ask.name].append(ask)
        self.copies = self._copies()
        self.letters: dict[str, list[Record]] = defaultdict(list)
        for _, record in self.read(world.settings.topics.dead_letters):
            self.letters[(dict(record.headers)["delay-source"] or b"").decode()].append(record)
        #: Whether the run has no faults, and how long steps take then.
        self.calm = not world.plan.faults and world.plan.weather == CALM
        looked_for = any(ask.poison == "unknown-topic" for ask in world.asks)
        self.prompt_s = (
            _PROMPT_S
            + self.exact * _TRANSACTIONS * world.plan.slowest_marker_s
            + looked_for * _LOOKED_FOR_S
            + (FORWARDS_MARGIN_S if world.plan.behind_s else 0.0)
        )

    def read(self, topic: str) -> Iterator[tuple[Batch, Record]]:
        """Go through a topic's committed records."""
        for log in self.world.broker.logs[topic]:
            for batch in log.committed():
                for record in batch.records(topic, log.partition):
                    yield batch, record

    def waiting(self) -> Iterator[tuple[bytes, Entry]]:
        """Yield the rows of pending messages, without callbacks, which have the ids of the failed messages."""
        for store in self.stores.values():
            yield from ((row, entry) for row, entry in store.rows() if entry.url is None)

    def _unadmitted(self) -> Iterator[str]:
        """Return the requests that were refused for a quota, and never accepted for good.

        The free room depends on the reports that a worker has read, so another reader of a request may decide
        otherwise. At least once, `accepted` is reported before the changelog is written: a life that was broken off, or
        a zombie, may have reported it for a request that is a dead letter.
        """
        refused = (event for event in self.events if event["event"] == "refused" and event["reason"] == "quota")
        told: dict[str, list[Told]] = {event["source"]: [] for event in refused}
        for one in self.told:
            if one.event["source"] in told and one.event["event"] in ("accepted", "duplicate", *ENDINGS):
                told[one.event["source"]].append(one)
        kept = self._kept_rows() if any(told.values()) else set()
        for source, others in told.items():
            number = self.world.home(self.asks[source])
            undone = (one.event["event"] == "accepted" and self.broken_off(one.sent, number) for one in others)
            if not others or (not self.exact and source not in kept and all(undone)):
                yield source

    def _kept_rows(self) -> set[str]:
        """Return the sources of all rows that owners, not zombies, have written to the changelogs."""
        return {
            decode(record.value).source
            for batch, record in self.read(self.world.settings.topics.changelog)
            if record.key is not None and keys.is_row(record.key) and record.value is not None
            if not self.succeeded(sent_of(batch), record.partition, self.seconds(batch.at_ms))
        }

    def _copies(self) -> dict[str, list[Copy]]:
        copies: dict[str, list[Copy]] = defaultdict(list)
        for topic in self.world.destinations:
            for batch, record in self.read(topic):
                said = dict(record.headers)
                source, due = (said["delay-source"] or b"").decode(), int(said["delay-due"] or b"")
                copies[source].append(Copy(record, sent_of(batch), batch.at_ms, source, due))
        for post in self.world.web.posts:
            if post.taken:
                at_ms = EPOCH_MS + int(post.sent.at_s * 1000)
                record = Record(post.url, 0, -1, at_ms + post.sent.shift_ms, None, post.body, ())
                copies[post.source].append(Copy(record, post.sent, at_ms, post.source, post.due_ms))
        return copies

    @staticmethod
    def seconds(at_ms: int) -> float:
        """Return the second of the run that a time by the brokers' clock is."""
        return (at_ms - EPOCH_MS) / 1000

    def is_known(self, copy: Copy, at_s: float) -> bool:
        """Return whether a command given at `at_s` had to be known when a copy was sent; always false with faults.

        If forwards are read late, a message waits for forwards from before its due time, however late it is itself.
        """
        in_time = copy.sent.at_s > at_s + self.prompt_s
        if self.world.plan.behind_s:
            in_time &= self.seconds(copy.due_ms) > at_s + self.prompt_s - _PROMPT_S + _FORWARDED_S
        return self.calm and in_time

    # lives -----------------------------------------------------------------------------------------------------------
    def began(self, sent: Sent, number: int) -> float:
        """Return when a worker had been given a partition, the last time before it sent something."""
        return self._span(self.workers[sent.worker], sent, number)[0]

    def broken_off(self, sent: Sent, number: int) -> Life | None:
        """Return the life in which something was sent if it was broken off after that, else None."""
        worker = self.workers[sent.worker]
        since, until = self._span(worker, sent, number)
        broken = any(sent.at_s <= at_s <= until and of in (None, number) for at_s, of in worker.breaks)
        return (worker.name, since, number) if broken or worker.outlived else None

    def succeeded(self, sent: Sent, number: int, by_s: float) -> bool:
        """Return whether another worker had been given a partition by then, since it was the sender's."""
        since = self.began(sent, number)
        given = ((worker.name, at_s) for worker in self.workers.values() for at_s, of in worker.given if of == number)
        return any(since < at_s <= by_s for name, at_s in given if name != sent.worker)

    @staticmethod
    def _span(worker: Worker, sent: Sent, number: int) -> tuple[float, float]:
        given = [at_s for at_s, of in worker.given if of == number]
        since = max((at_s for at_s in given if at_s <= sent.at_s), default=-1.0)
        return since, min((at_s for at_s in given if at_s > sent.at_s), default=1e9)


def sent_of(batch: Batch) -> Sent:
    """Return the sender of a batch."""
    assert batch.sent is not None, "only users' records are written without a worker"
    return batch.sent
