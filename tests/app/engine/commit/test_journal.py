"""The order of a commit, and the owner of a changelog (at least once)."""

import asyncio
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiokafka.record.memory_records import MemoryRecords

from app.base.errors import NotOwner, PartitionStopped
from app.engine.commit.journal import Journal
from app.engine.steps.step import OutgoingRecord, Step
from app.kafka import Ack, Batch
from app.kafka.errors import TooLarge
from app.settings.settings import Settings
from punctual.contract.events import Event
from punctual.contract.request import Reason
from tables import PartitionStore, keys
from tables.restore import EPOCHS
from tests.tables.rows import NOW, entry, key, put

if TYPE_CHECKING:
    from app.kafka.metadata.reader import PartitionReader

CHANGELOG, EVENTS, FORWARDS = "delay-delays-changelog", "delay-events", "delay-forwards"
Records = list[tuple[bytes | None, bytes | None]]


class Topics:
    """A sender and the logs that it writes to; a topic that is held acknowledges when the test says so."""

    def __init__(self) -> None:
        self.logs: dict[str, Records] = defaultdict(list)
        self.held: dict[str, asyncio.Future[None]] = {}
        self.refused: set[str] = set()

    def submit(self, topic: str, partition: int, batch: Batch) -> "asyncio.Task[Ack]":
        assert partition == 0
        return asyncio.get_running_loop().create_task(self._take(topic, batch))

    async def _take(self, topic: str, batch: Batch) -> Ack:
        if topic in self.held:
            await self.held[topic]
        if topic in self.refused:
            raise TooLarge(topic)
        offset = len(self.logs[topic])
        self.logs[topic] += [(one.key, one.value) for one in MemoryRecords(batch.build(1, 0, 0)).next_batch()]
        return Ack(offset, NOW)

    def hold(self, topic: str) -> "asyncio.Future[None]":
        self.held[topic] = asyncio.get_running_loop().create_future()
        return self.held[topic]


class Reader:
    """Reads one of the logs."""

    def __init__(self, log: Records, offset: int) -> None:
        self._log, self._offset = log, offset

    async def end(self) -> int:
        return len(self._log)

    async def position(self) -> int:
        return self._offset

    async def chunk(self, limit: int) -> list[Any]:
        begin, self._offset = self._offset, min(len(self._log), self._offset + limit)
        return [
            SimpleNamespace(offset=offset, key=key_, value=value)
            for offset, (key_, value) in enumerate(self._log[begin : self._offset], begin)
        ]


class Written(Journal):
    """A journal of one partition that reads the log that it writes."""

    def __init__(self, path: Path) -> None:
        self.topics, self.store = Topics(), PartitionStore(path / "0.db")
        table: Any = SimpleNamespace(stores={0: self.store})
        settings = Settings.from_env({})
        super().__init__(settings.topics, settings.engine, cast("Any", None), cast("Any", self.topics), table)

    def reader(self, partition: int, offset: int) -> "PartitionReader":
        assert partition == 0
        return cast("PartitionReader", Reader(self.topics.logs[CHANGELOG], offset))


def step_of(id_: str = "a", due_ms: int = 5) -> Step:
    """Return a step that accepts a message, and forwards something."""
    step = Step(NOW)
    put(step.changes, key(due_ms), entry(id_))
    step.tell(Event("accepted", id_, NOW, "delay-requests-0-0", due_ms, "orders"))
    step.send(OutgoingRecord(FORWARDS, 0, b"b", b"raw", []))
    return step


async def until_idle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_events_and_records_come_before_the_changelog_and_that_before_the_database(tmp_path: Path) -> None:
    journal = Written(tmp_path)
    await journal.claim(0, NOW)
    events, changelog = journal.topics.hold(EVENTS), journal.topics.hold(CHANGELOG)
    commit = asyncio.ensure_future(journal.commit(0, step_of()))
    await until_idle()
    assert len(journal.topics.logs[FORWARDS]) == 1
    assert len(journal.topics.logs[CHANGELOG]) == 1, "the claim alone: the event is not acknowledged"

    events.set_result(None)
    await until_idle()
    assert journal.store.find("a") is None, "the changelog has not taken it"

    changelog.set_result(None)
    await commit
    assert journal.store.find("a") == key(5)
    assert journal.store.offset == len(journal.topics.logs[CHANGELOG])


async def test_if_an_internal_topic_refuses_a_record_the_whole_step_is_dropped(tmp_path: Path) -> None:
    journal = Written(tmp_path)
    await journal.claim(0, NOW)
    journal.topics.refused.add(EVENTS)

    with pytest.raises(TooLarge):
        await journal.commit(0, step_of())
    assert len(journal.topics.logs[CHANGELOG]) == 1
    assert journal.store.find("a") is None


async def test_each_owner_has_a_higher_epoch_and_begins_each_batch_with_it(tmp_path: Path) -> None:
    journal = Written(tmp_path)
    for epoch in (1, 2):
        assert await journal.claim(0, NOW) == NOW
        assert journal.store.writer == epoch
    await journal.commit(0, step_of())

    writers = [value for key_, value in journal.topics.logs[CHANGELOG] if key_ == keys.WRITER]
    assert writers == [keys.long_bytes(epoch) for epoch in (1, 2, 2)]


async def test_who_finds_a_higher_epoch_than_its_own_ends(tmp_path: Path) -> None:
    journal = Written(tmp_path)
    await journal.claim(0, NOW)
    journal.topics.logs[CHANGELOG].append((keys.WRITER, keys.long_bytes(2)))

    with pytest.raises(NotOwner, match="epoch 2 after 1"):
        await journal.commit(0, step_of())


async def test_records_of_a_zombie_are_corrected(tmp_path: Path) -> None:
    journal = Written(tmp_path)
    await journal.claim(0, NOW)
    await journal.commit(0, step_of("a", 5))
    await journal.claim(0, NOW)
    log = journal.topics.logs[CHANGELOG]
    log += [(keys.WRITER, keys.long_bytes(1)), (key(5), None), (key(7), b"zombie's")]
    await journal.check_alone(0, NOW)

    last = dict(log)  # what compaction keeps
    assert last[key(5)] == journal.store.raw(key(5))
    assert last[key(7)] is None
    assert (journal.store.foreign.keys, journal.store.offset) == (set(), len(log))


async def test_an_epoch_after_which_there_is_none_stops_the_partition(tmp_path: Path) -> None:
    journal = Written(tmp_path)
    journal.store.writer = EPOCHS - 1

    with pytest.raises(PartitionStopped, match="the record is forged"):
        await journal.claim(0, NOW)


async def test_a_step_without_changes_leaves_the_changelog_alone(tmp_path: Path) -> None:
    journal, step = Written(tmp_path), Step(NOW)
    await journal.claim(0, NOW)
    step.send(OutgoingRecord(FORWARDS, 0, b"b", b"raw", []))
    await journal.commit(0, step)

    assert (len(journal.topics.logs[FORWARDS]), len(journal.topics.logs[CHANGELOG])) == (1, 1)


async def test_a_step_is_counted_once_when_it_is_committed(tmp_path: Path) -> None:
    journal = Written(tmp_path)
    await journal.claim(0, NOW)
    step = step_of()
    step.reject(OutgoingRecord("delay-dead-letters", 0, b"c", b"raw", []), Reason.MALFORMED)
    journal.topics.refused.add(CHANGELOG)
    with pytest.raises(TooLarge):
        await journal.commit(0, step)
    assert not any(journal.tally.events.values())
    assert journal.tally.commits.buckets()[-1] == ("+Inf", 0)
    journal.topics.refused.clear()
    await journal.commit(0, step)
    assert {kind for kind, number in journal.tally.events.items() if number == 1} == {"accepted"}
    assert journal.tally.dead_letters["malformed"] == sum(journal.tally.dead_letters.values()) == 1
    assert journal.tally.commits.buckets()[-1] == ("+Inf", 1)
