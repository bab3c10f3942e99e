"""The result, read from Kafka alone by a client that is independent of the workers."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.chaos.fencing import accepted_from_fenced
from tests.chaos.traffic import Outcome, Story, Traffic
from tests.harness.account import Account, pending_of
from tests.harness.kafka import Record, read

_SHOWN = 10


@dataclass
class Verdict:
    """Counts of violations and of deliveries; `sentences` describes some violations of each kind."""

    messages: int = 0
    commands: int = 0
    poisoned: int = 0
    delivered: int = 0
    lost: int = 0
    early: int = 0
    duplicates: int = 0
    revived: int = 0
    """Delivered though cancelled, replaced or rescheduled well before."""
    altered: int = 0
    """Delivered with other bytes or with an unknown id."""
    unbalanced: int = 0
    double_endings: int = 0
    hanging: int = 0
    """Partitions in which a transaction is still open."""
    fenced: int = 0
    """Records that a fenced producer could write."""
    p99_ms: int = 0
    longest_ms: int = 0
    """The longest that a first copy came after its due time."""
    sentences: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    """Some of the duplicates."""

    @property
    def broken(self) -> bool:
        """Whether anything but duplicates and double endings has been counted, which a crash allows within bounds."""
        return any((self.lost, self.early, self.revived, self.altered, self.unbalanced, self.hanging, self.fenced))

    def counts(self) -> dict[str, int]:
        """Return everything that is counted."""
        return {name: value for name, value in asdict(self).items() if name not in ("sentences", "repeated")}


def judge(traffic: Traffic, logs: list[Path], *, fast_ms: int = 0) -> Verdict:
    """Read destinations, events, progress, dead letters and the brokers' log directories, and count.

    A worker whose clock is `fast_ms` ahead may be early by as much, by the brokers' clock.
    """
    bootstrap, app_id = traffic.bootstrap, traffic.app_id
    found = Verdict(len(traffic.stories), traffic.commands, sum(traffic.poisoned.values()))
    copies: dict[str, list[str]] = {}
    late: list[int] = []
    came: set[str] = set()
    for out in dict.fromkeys(traffic.outs):
        for record in read(bootstrap, out):
            id_, source, due = record.header("delay-id"), record.header("delay-source"), int(record.header("delay-due"))
            copies.setdefault(source, []).append(f"{record.source} at {record.timestamp_ms}")
            came.add(id_)
            if due - record.timestamp_ms > fast_ms:
                found.early += 1
                found.sentences.append(f"{id_} came {due - record.timestamp_ms} ms early")
            if len(copies[source]) == 1:
                late.append(record.timestamp_ms - due)
            _compare(found, traffic, traffic.stories.get(id_), record, due)
    missing = sorted(id_ for id_, story in traffic.stories.items() if story.must and id_ not in came)
    found.delivered, found.lost = len(came), len(missing)
    twice = {source: places for source, places in copies.items() if len(places) > 1}
    found.duplicates = sum(len(places) - 1 for places in twice.values())
    found.repeated = [f"{source} came as {', '.join(places)}" for source, places in [*twice.items()][:_SHOWN]]
    found.sentences += [f"{id_} is lost: {traffic.stories[id_]}" for id_ in missing[:_SHOWN]]
    if late:
        late.sort()
        found.p99_ms, found.longest_ms = late[int(len(late) * 0.99)], late[-1]
    _balance(found, bootstrap, app_id)
    _dead_letters(found, traffic)
    found.hanging = hanging(bootstrap, [*traffic.outs, *_own(bootstrap, app_id)])
    found.fenced = accepted_from_fenced(logs, app_id)
    del found.sentences[5 * _SHOWN :]
    return found


def _compare(found: Verdict, traffic: Traffic, story: Story | None, record: Record, due: int) -> None:
    id_ = record.header("delay-id")
    if story is None:
        found.altered += 1
        found.sentences.append(f"nobody asked for {id_}")
        return
    revision = next((n for n in (0, 1) if record.value == traffic.value(id_, n)), None)
    if revision is None or record.key != id_.encode() or record.topic != story.to:
        found.altered += 1
        found.sentences.append(f"{id_} has another key, value or destination than requested")
        return
    may = story.may()
    if Outcome(revision, due) not in may and Outcome(revision, None) not in may:
        found.revived += 1
        found.sentences.append(f"{id_} was delivered as number {revision} due at {due}, though {story}")


def _balance(found: Verdict, bootstrap: str, app_id: str) -> None:
    account = Account.of(_endings(read(bootstrap, f"{app_id}-events")), pending_of(bootstrap, app_id), keep=False)
    faults = account.faults()
    found.unbalanced, found.double_endings = len(faults), account.outranked
    found.sentences += faults[:_SHOWN]


def _endings(records: Iterable[Record]) -> Iterable[dict[str, Any]]:
    for record in records:
        yield json.loads(record.value or b"")


def _dead_letters(found: Verdict, traffic: Traffic) -> None:
    letters: dict[str, set[str]] = {}
    for record in read(traffic.bootstrap, f"{traffic.app_id}-dead-letters"):
        letters.setdefault(record.header("delay-reason"), set()).add(record.header("delay-source"))
    told = {reason: len(sources) for reason, sources in letters.items()}
    if told != traffic.poisoned:
        found.unbalanced += 1
        found.sentences.append(f"dead letters {told}, requests that cannot be accepted {traffic.poisoned}")


def _own(bootstrap: str, app_id: str) -> list[str]:
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=30).topics
    return [name for name in topics if name.startswith(f"{app_id}-")]


def hanging(bootstrap: str, topics: Iterable[str]) -> int:
    """Count the partitions whose committed end is before their end: a transaction is open there."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    known = admin.list_topics(timeout=30).topics
    places = [TopicPartition(topic, number) for topic in set(topics) for number in known[topic].partitions]
    asked = {place: OffsetSpec.latest() for place in places}
    ends = [
        {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}
        for answers in (
            admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED),
            admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED),
        )
    ]
    return sum(ends[1][place] < end for place, end in ends[0].items())
