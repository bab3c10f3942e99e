"""The new changelog has the content of the old one, and the check finds every difference."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from app.kafka import Batch
from app.ops.repartition import checking
from app.ops.repartition.copying import ChangelogCopy
from app.ops.repartition.errors import CheckFailed
from app.ops.repartition.moves import Moves
from app.ops.repartition.survey import Survey, survey
from app.settings.settings import Settings
from punctual.contract.home import home_partition
from tables import ColdMark, Command, Entry, PartitionStore, Position, RememberedCommands, keys
from tables.changes import RememberedDelivery, cold_mark_bytes, delivered_bytes, position_bytes
from tables.commands import commands_bytes
from tables.entry import decode, encode

if TYPE_CHECKING:
    from app.ops.repartition.ground import Ground

NOW = 1_795_600_000_000
BEFORE, AFTER = 3, 5
OLD = Settings.from_env({"DELAY_PARTITIONS": str(BEFORE)})
NEW = Settings.from_env({"DELAY_PARTITIONS": str(AFTER), "DELAY_REPARTITIONED": "on"})
#: The last is no input any more.
REQUESTS, FORWARDS, ONCE = (
    keys.topic_crc(OLD.topics.requests),
    keys.topic_crc(OLD.topics.forwards),
    keys.topic_crc("once"),
)

KeyValue = tuple[bytes, bytes | None]


class Journal:
    """Keeps the written records, by partition."""

    def __init__(self) -> None:
        self.logs: dict[int, list[KeyValue]] = {number: [] for number in range(AFTER)}

    def new_batch(self) -> "Recorded":
        return Recorded()

    async def put(self, partition: int, batch: "Recorded") -> None:
        self.logs[partition] += batch.records

    async def fence(self, partition: int) -> None:
        """Report no other member."""


class Recorded(Batch):
    """A batch that can be read."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        super().__init__(1 << 28)
        self.records: list[KeyValue] = []

    def append(self, _: int, key: bytes | None, value: bytes | None, *__: object) -> bool:
        self.records.append((key or b"", value))
        return True


def entry(id_: str, *commands: Command, to: str = "orders") -> bytes:
    return encode(Entry(id_, to, b"key", b"value of " + id_.encode(), [], "delay-requests-0-0", commands=commands))


def records(partition: int) -> Iterator[KeyValue]:
    """What an old partition's changelog says."""
    yield keys.WRITER, keys.long_bytes(7 + partition)
    ids = [f"m{number}" for number in range(60) if home_partition(f"m{number}", OLD.topics.inputs, BEFORE) == partition]
    for number, id_ in enumerate(ids):
        commands = [Command("reschedule", "delay-requests-0-9", NOW, number + 1_000, ONCE, 5)] * (number % 5 == 4)
        yield keys.row_key(NOW + number // 4, number // 2, (REQUESTS, FORWARDS)[number % 2]), entry(id_, *commands)
    for offset in range(5):
        yield keys.row_key(NOW, 500 + offset, REQUESTS), entry(f"delay-requests-{partition}-{offset}")
    yield keys.COMMANDS + ids[0].encode(), commands_bytes(RememberedCommands(1, NOW, "delay-requests-0-1"))
    yield keys.DELIVERED + ids[1].encode(), delivered_bytes(RememberedDelivery(1, NOW))
    yield keys.COLD + ids[2].encode(), cold_mark_bytes(ColdMark("delay-requests-0-1", NOW, kept=True))
    yield keys.origin_key("delay-requests", 1), keys.long_bytes(3)
    for topic in (OLD.topics.requests, OLD.topics.forwards):
        yield keys.POSITION + topic.encode(), position_bytes(Position(1_000 + partition, NOW, 3))
    # An id whose later row has taken it from an earlier one, as recovery may find it.
    last = next(name for name in map("twice-{}".format, range(99)) if home_partition(name, (), BEFORE) == partition)
    yield keys.row_key(NOW + 9, 2_000, REQUESTS), entry(last)
    yield keys.row_key(NOW + 1, 2_001, REQUESTS), entry(last)
    yield keys.SEAL, NEW.topics.changelog.encode()


class Stage:
    """Old and new stores, and a copy between them."""

    def __init__(self, directory: Path) -> None:
        self.old = [PartitionStore(directory / f"old-{number}.db") for number in range(BEFORE)]
        for number, store in enumerate(self.old):
            store.replay(list(records(number)), 100, NOW)
        self.new = [PartitionStore(directory / f"new-{number}.db") for number in range(AFTER)]
        self.journal = Journal()
        found = survey(self.old, Moves(OLD.topics.inputs, AFTER, {}), "rows")
        self.moves, self.found = Moves(OLD.topics.inputs, AFTER, found.numbers), found
        self.notes: list[int] = []
        self.ground = cast("Ground", SimpleNamespace(before=self._side(OLD, self.old), after=self._side(NEW, self.new)))

    def _side(self, settings: Settings, stores: list[PartitionStore]) -> SimpleNamespace:
        async def read(_: str) -> None:
            for number, store in enumerate(self.new):
                log, self.journal.logs[number] = self.journal.logs[number], []
                store.replay(log, store.offset + len(log), NOW)

        numbers = range(settings.topics.partitions)
        return SimpleNamespace(settings=settings, stores=stores, numbers=numbers, journal=self.journal, read=read)

    async def copy(self, from_ms: int = 0) -> None:
        copy = ChangelogCopy(self.ground, self.moves, self.found)

        async def note(due_ms: int) -> None:
            self.notes.append(due_ms)

        await copy.rows(from_ms, note)
        await copy.rest()

    async def check(self) -> Survey:
        return await checking.check(self.ground, self.moves, self.found)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    for store in (*made.old, *made.new):
        with closing(store):
            pass


async def test_each_row_is_copied_once_to_its_home_partition(stage: Stage) -> None:
    await stage.copy()
    there = await stage.check()
    assert (there.rows, there.misplaced, len(there.displaced)) == (stage.found.rows, 0, BEFORE)
    ids = sorted(decode(raw).id for store in stage.new for _, raw in store.raw_rows(b""))
    assert ids == sorted(decode(raw).id for store in stage.old for _, raw in store.raw_rows(b""))
    assert all(store.writer == 7 + BEFORE for store in stage.new)
    assert stage.found.moved > 0
    assert stage.moves.home("delay-requests-2-4") == 2
    assert [set(store.positions) for store in stage.new] == [{OLD.topics.requests, NEW.topics.forwards}] * BEFORE + [
        {NEW.topics.forwards}
    ] * 2


async def test_an_id_that_two_rows_have_is_the_same_rows_as_before(stage: Stage) -> None:
    def clashes(stores: list[PartitionStore]) -> dict[str, int]:
        return {decode(store.raw(key) or b"").id: keys.due_of(key) for store in stores for key in store.clashes}

    before = clashes(stage.old)
    assert len(before) == BEFORE
    await stage.copy()
    await stage.check()
    assert clashes(stage.new) == before


async def test_a_copy_that_was_cut_off_is_the_same_when_it_is_done_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ops.repartition.copying._NOTE_ROWS", 20)
    await stage.copy()
    await stage.ground.after.read("")
    assert len(stage.notes) > 1
    for since in (0, *stage.notes):
        await stage.copy(since)
        await stage.check()


async def test_records_that_are_forwarded_from_now_on_come_after_moved_ones(stage: Stage) -> None:
    await stage.copy()
    await stage.check()
    for store in stage.new:
        offsets = [keys.suffix_of(key)[0] for key, _ in store.raw_rows(b"")]
        position = store.positions[NEW.topics.forwards]
        assert position.offset == 0
        assert position.base > max(offsets, default=-1)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("lost", "rows instead of"),
        ("doubled", "rows instead of"),
        ("elsewhere", "elsewhere than their ids"),
        ("changed", "have other rows or marks"),
        ("mark", "have other rows or marks"),
        ("position", "other positions"),
        ("destination", "messages for"),
    ],
)
async def test_the_check_finds_defects(stage: Stage, fault: str, says: str) -> None:
    await stage.copy()
    log = stage.journal.logs[1]
    place, (key, value) = next((at, (key, value)) for at, (key, value) in enumerate(log) if keys.is_row(key) and value)
    if fault == "lost":
        del log[place]
    elif fault == "doubled":
        log.append((keys.with_due(key, NOW + 77), entry("another")))
    elif fault == "elsewhere":
        log[place] = (key, entry(next(f"x{n}" for n in range(99) if stage.moves.home(f"x{n}") != 1)))
    elif fault == "changed":
        log[place] = (key, encode(decode(value), 3))
    elif fault == "mark":
        log.append((keys.DELIVERED + b"who", delivered_bytes(RememberedDelivery(1, NOW))))
    elif fault == "position":
        log.append((keys.POSITION + OLD.topics.requests.encode(), position_bytes(Position(1, NOW, 3))))
    else:
        log[place] = (key, entry(decode(value).id, to="refunds"))
    with pytest.raises(CheckFailed, match=says):
        await stage.check()
