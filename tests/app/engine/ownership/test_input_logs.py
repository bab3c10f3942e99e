"""An input that has lost its last records goes on at its end; another log by the same name stops the partition."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from app.base.errors import PartitionStopped
from app.engine.ingest.ingest import crc_of
from app.engine.ownership import input_logs as module
from app.engine.ownership.input_logs import InputLogs
from app.engine.steps.step import Step
from app.kafka.metadata.reader import Stored
from tables import Position
from tests.app.stage import Stage

TOPIC, FORWARDS = "delay-requests", "delay-forwards"


class Input:
    """A topic of one partition, each of whose records was appended at a time."""

    def __init__(self) -> None:
        self.id, self.begin = "11" * 16, 0
        self.records: list[tuple[int, bytes]] = []

    def write(self, *at_ms: int) -> None:
        self.records += [(at, b"%d" % at) for at in at_ms]

    def truncate(self, end: int) -> None:
        del self.records[end:]


class Reader:
    """Stands where app.kafka.metadata.reader.PartitionReader stands."""

    def __init__(self, inputs: dict[str, Input], topic: str, _number: int, offset: int = 0) -> None:
        self._input, self._offset = inputs[topic], offset

    async def begin(self) -> int:
        return self._input.begin

    async def end(self) -> int:
        return len(self._input.records)

    async def position(self) -> int:
        return self._offset

    async def after(self, at_ms: int) -> int:
        later = (offset for offset, (stamp, _) in enumerate(self._input.records) if stamp > at_ms)
        return next(later, len(self._input.records))

    async def chunk(self, limit: int) -> list[Stored]:
        found = self._input.records[self._offset : self._offset + limit]
        first, self._offset = self._offset, self._offset + len(found)
        return [Stored(first + place, stamp, None, value) for place, (stamp, value) in enumerate(found)]


class Committed(NamedTuple):
    """The reports of a step."""

    events: list[dict[str, Any]]
    positions: dict[str, Position]


class Looking:
    """The inputs of a partition, and what its journal was given."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.inputs = stage, {TOPIC: Input(), FORWARDS: Input()}
        self.steps: list[Committed] = []
        self.producers_time: set[str] = set()
        self.accepted: tuple[str, ...] = ()

    async def commit(self, _number: int, step: Step) -> None:
        """Take a step as a journal does."""
        events = [msgspec.json.decode(value) for pairs in step.events for _, value in pairs]
        self.steps.append(Committed(events, dict(step.changes.positions)))
        store = self.stage.partition.store
        store.apply(step.changes, store.offset, store.writer, step.now_ms)

    def read(self, count: int, *, topic_id: bool = True) -> None:
        """Read this many records; without `topic_id`, as a version that knows no topic IDs does."""
        stamp, value = self.inputs[TOPIC].records[count - 1]
        known = self.inputs[TOPIC].id if topic_id else ""
        positions = self.stage.partition.store.positions
        positions[TOPIC] = Position(count, stamp, crc_of(None, value), 0, stamp, known)
        positions[FORWARDS] = Position(0, -1, 0, log=self.inputs[FORWARDS].id)

    async def offset(self) -> int:
        """Return where to read on."""
        accepts = tuple(f"recreated:{topic}" for topic in self.accepted)
        engine = dataclasses.replace(self.stage.settings.engine, accept_loss=accepts)
        settings = dataclasses.replace(self.stage.settings, engine=engine)
        logs = InputLogs(
            settings.topics,
            settings.engine,
            cast("Any", self.inputs),
            self.stage.clock,
            cast("Any", self),
            self.producers_time,
        )
        return (await logs.positions(0, self.stage.partition.store))[TOPIC]

    @property
    def position(self) -> Position:
        return self.stage.partition.store.positions[TOPIC]


@pytest.fixture
async def looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Looking]:
    async def ids(inputs: dict[str, Input], topics: Any) -> dict[str, tuple[str, int]]:
        return {topic: (inputs[topic].id, 1) for topic in topics}

    monkeypatch.setattr(module, "PartitionReader", Reader)
    monkeypatch.setattr(module, "topic_ids", ids)
    async with Stage(tmp_path) as stage:
        yield Looking(stage)


async def test_a_log_with_all_that_was_read_is_read_on(looking: Looking) -> None:
    looking.inputs[TOPIC].write(1, 2, 3)
    looking.read(2)

    assert await looking.offset() == 2
    assert not looking.steps


async def test_the_id_of_a_log_is_noted_when_it_is_seen_for_the_first_time(looking: Looking) -> None:
    looking.inputs[TOPIC].write(1, 2, 3)
    looking.read(2, topic_id=False)

    assert await looking.offset() == 2
    assert looking.position.log == looking.inputs[TOPIC].id
    assert not looking.steps, "the next step that reads something writes it"


@pytest.mark.parametrize("topic_id", ["known", ""])
@pytest.mark.parametrize("since", [(), (70, 80), (70, 80, 90, 95, 99)])
async def test_a_log_that_lost_its_last_records_goes_on_at_its_end_with_an_event(
    looking: Looking, topic_id: str, since: tuple[int, ...]
) -> None:
    looking.inputs[TOPIC].write(10, 20, 30, 40, 50)
    looking.read(5, topic_id=bool(topic_id))
    looking.inputs[TOPIC].truncate(2)
    looking.inputs[TOPIC].write(*since)

    assert await looking.offset() == 2, "the remaining records were read, and newer ones were not"

    [step] = looking.steps
    said = {"event": "truncated", "id": f"{TOPIC}-0", "source": f"{TOPIC}-0-2", "by": f"{TOPIC}-0-4"}
    [event] = step.events
    assert {name: event.get(name) for name in said} == said
    # Offsets continue where they ended, so no two records have the same.
    assert looking.position.offset + looking.position.base == 5
    assert looking.position.stamp_ms == 50
    assert await looking.offset() == 2
    assert len(looking.steps) == 1, "it is reported once"


async def test_a_log_that_lost_everything_is_known_by_its_id(looking: Looking) -> None:
    looking.inputs[TOPIC].write(10, 20)
    looking.read(2)
    looking.inputs[TOPIC].truncate(0)

    assert await looking.offset() == 0
    assert looking.position.base == 2


@pytest.mark.parametrize("topic_id", ["known", ""])
@pytest.mark.parametrize("since", [(), (70,), (70, 80, 90)])
async def test_another_log_stops_the_partition(looking: Looking, topic_id: str, since: tuple[int, ...]) -> None:
    looking.inputs[TOPIC].write(10, 20)
    looking.read(2, topic_id=bool(topic_id))
    looking.inputs[TOPIC] = Input()
    looking.inputs[TOPIC].id = "22" * 16
    looking.inputs[TOPIC].write(*since)

    with pytest.raises(PartitionStopped, match=r"created again.*DELAY_ACCEPT_LOSS=recreated:delay-requests"):
        await looking.offset()

    looking.accepted = (TOPIC,)
    assert await looking.offset() == 0
    assert looking.position.base == 2
    assert looking.position.log == "22" * 16


async def test_a_log_that_lost_its_last_records_is_not_read_from_its_start_even_if_that_was_accepted(
    looking: Looking,
) -> None:
    looking.accepted = (TOPIC,)
    looking.inputs[TOPIC].write(10, 20, 30)
    looking.read(3)
    looking.inputs[TOPIC].truncate(2)

    assert await looking.offset() == 2


async def test_producers_timestamps_do_not_show_when_records_arrived(looking: Looking) -> None:
    looking.producers_time = {TOPIC}
    looking.inputs[TOPIC].write(10, 20, 30)
    looking.read(3)
    looking.inputs[TOPIC].truncate(2)
    looking.inputs[TOPIC].write(12)
    with pytest.raises(PartitionStopped, match="Producers' timestamps cannot show"):
        await looking.offset()
    looking.accepted = (TOPIC,)
    assert await looking.offset() == 0


async def test_records_deleted_before_the_first_read_are_reported(
    looking: Looking, caplog: pytest.LogCaptureFixture
) -> None:
    assert await looking.offset() == 0
    looking.inputs[TOPIC].write(1, 2, 3)
    looking.inputs[TOPIC].begin = 2

    assert await looking.offset() == 2
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith(f"{TOPIC}-0: records 0 to 1 were deleted before they were read")


async def test_a_topic_that_is_older_than_the_installation_begins_where_it_does(
    looking: Looking, caplog: pytest.LogCaptureFixture
) -> None:
    looking.inputs[TOPIC].write(1, 2, 3)
    looking.inputs[TOPIC].begin = 2

    for _ in range(2):  # no record arrives before the next start
        assert await looking.offset() == 2
    assert not caplog.records
    assert len(looking.steps) == 1


async def test_a_topic_without_read_records_may_be_created_again(looking: Looking) -> None:
    looking.inputs[TOPIC].write(1, 2, 3)
    looking.inputs[TOPIC].begin = 3
    assert await looking.offset() == 3
    looking.inputs[TOPIC] = Input()
    looking.inputs[TOPIC].id = "22" * 16
    looking.inputs[TOPIC].write(4)

    assert await looking.offset() == 0
    assert looking.position.log == "22" * 16


async def test_another_log_with_the_same_records_stops_the_partition(looking: Looking) -> None:
    looking.inputs[TOPIC].write(10, 20, 30)
    looking.read(3)
    looking.inputs[TOPIC].id = "22" * 16
    with pytest.raises(PartitionStopped, match="has a different topic id than when it was last read"):
        await looking.offset()
