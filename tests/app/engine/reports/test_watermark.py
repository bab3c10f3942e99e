"""Watermarks: an ending is forgotten once no older command can arrive, and not before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from app.engine.reports import latest_reports as reports_module
from app.engine.reports import watermark as module
from app.engine.reports.latest_reports import LatestReports, RowVersion
from app.engine.reports.watermark import Watermark
from app.kafka.metadata.reader import PartitionReader, Stored
from app.settings.settings import Settings
from tests.app.stage import Stage

PARTITIONS = 4
EMPTY, FORWARDED = 0, 7


class Intake:
    """The fetched positions of each topic partition."""

    def __init__(self) -> None:
        self.positions: dict[tuple[str, int], int] = {}

    def position(self, topic: str, partition: int) -> int | None:
        return self.positions.get((topic, partition), 0)


class Told:
    """Reports as other workers write them."""

    def __init__(self, read_to: dict[int, int]) -> None:
        self.stamps = read_to

    async def read(self) -> None:
        """They are there."""

    def read_to(self, number: int, _topic: str) -> int:
        return self.stamps.get(number, -1)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}

    async def written_end(self: PartitionReader) -> int:
        return found.get((self._topic, self._partition), 0)

    monkeypatch.setattr(PartitionReader, "written_end", written_end)
    return found


@asynccontextmanager
async def watching(path: Path, partitions: int = 1, producers: tuple[str, ...] = ()) -> AsyncIterator[Any]:
    async with Stage(path, DELAY_PARTITIONS=str(partitions)) as stage:
        intake, reports = Intake(), Told({})
        made = Watermark(
            stage.settings.topics,
            cast("Any", None),
            stage.clock,
            cast("Any", reports),
            stage.due.partitions,
            intake,
            producers,
        )
        yield stage, made, intake, reports


def everyone(stamp_ms: int) -> dict[int, int]:
    return dict.fromkeys(range(PARTITIONS), stamp_ms)


async def test_it_is_the_lowest_claim_of_all_partitions(tmp_path: Path, ends: dict[tuple[str, int], int]) -> None:
    assert not ends
    async with watching(tmp_path, PARTITIONS) as (stage, made, _, reports):
        reports.stamps = everyone(stage.clock.wall - 500) | {1: stage.clock.wall - 9_000}
        for _ in range(2):  # the second look finds the record that was forwarded by the record of the first
            await made.look()

        assert stage.partition.memory.watermark_ms == stage.clock.wall - 9_000


async def test_a_partition_without_a_report_holds_the_watermark_back(
    tmp_path: Path, ends: dict[tuple[str, int], int]
) -> None:
    assert not ends
    async with watching(tmp_path, PARTITIONS) as (stage, made, _, reports):
        reports.stamps = everyone(stage.clock.wall)
        for _ in range(2):
            await made.look()
        assert stage.partition.memory.watermark_ms > 0
        del reports.stamps[2]
        await made.look()

        assert stage.partition.memory.watermark_ms == -1


async def test_forwards_of_other_partitions_are_read_first(tmp_path: Path, ends: dict[tuple[str, int], int]) -> None:
    async with watching(tmp_path, PARTITIONS) as (stage, made, intake, reports):
        reports.stamps = everyone(stage.clock.wall)
        ends["delay-forwards", 0] = FORWARDED
        for _ in range(3):
            await made.look()
        assert stage.partition.memory.watermark_ms == -1
        intake.positions["delay-forwards", 0] = FORWARDED
        await made.look()

        assert stage.partition.memory.watermark_ms > 0


async def test_an_input_with_something_to_read_is_claimed_only_as_far_as_it_is_read(
    tmp_path: Path, ends: dict[tuple[str, int], int]
) -> None:
    async with watching(tmp_path) as (stage, made, _, _):
        await stage.schedule("a", 60_000)
        read_ms = stage.clock.wall
        stage.clock.pass_by(5_000)
        ends["delay-requests", 0] = 2
        await made.look()
        assert stage.partition.memory.read_to(stage.clock.wall) == {"delay-requests": read_ms}
        ends["delay-requests", 0] = 1
        await made.look()

        claimed = stage.clock.wall - module._BEHIND_MS
        assert stage.partition.memory.read_to(stage.clock.wall) == {"delay-requests": claimed}


async def test_an_idle_input_with_producers_timestamps_is_not_claimed(
    tmp_path: Path, ends: dict[tuple[str, int], int]
) -> None:
    assert not ends
    async with watching(tmp_path, 1, ("delay-requests",)) as (stage, made, _, _):
        await made.look()

        assert stage.partition.memory.read_to(stage.clock.wall) == {"delay-requests": -1}


async def test_a_new_owner_is_bound_by_the_claim_of_the_previous_one(
    tmp_path: Path, ends: dict[tuple[str, int], int]
) -> None:
    assert not ends
    async with watching(tmp_path) as (stage, made, _, reports):
        reports.stamps[0] = stage.clock.wall + 70
        for topic, stamp_ms in (await made.claims(0)).items():
            stage.partition.memory.claim(topic, stamp_ms)
        await stage.schedule("a", 60_000)

        ((_, entry),) = stage.stores[0].rows()
        assert entry.stamp_ms == stage.clock.wall + 70


async def test_a_claim_of_the_future_is_ignored(tmp_path: Path, ends: dict[tuple[str, int], int]) -> None:
    assert not ends
    async with watching(tmp_path) as (stage, made, _, reports):
        reports.stamps[0] = stage.clock.wall + 3_600_000

        assert await made.claims(0) == {}


async def test_a_worker_s_own_claim_counts_when_it_is_written(tmp_path: Path, ends: dict[tuple[str, int], int]) -> None:
    assert not ends
    async with watching(tmp_path) as (stage, made, _, reports):
        for _ in range(3):
            await made.look()
        assert stage.partition.memory.read_to(stage.clock.wall)["delay-requests"] > 0
        assert stage.partition.memory.watermark_ms == -1
        reports.stamps[0] = stage.clock.wall
        for _ in range(2):
            await made.look()

        assert stage.partition.memory.watermark_ms == stage.clock.wall


class Written:
    """The progress topic, read as a cluster would have it."""

    records: list[bytes]
    up_to = PartitionReader.up_to

    def __init__(self, _cluster: object, _topic: str, _partition: int, offset: int = 0) -> None:
        self._offset = offset

    async def begin(self) -> int:
        return 0

    async def end(self) -> int:
        return len(self.records)

    async def position(self) -> int:
        return self._offset

    async def chunk(self, limit: int) -> list[Stored]:
        found = self.records[self._offset : self._offset + limit]
        begin, self._offset = self._offset, self._offset + len(found)
        return [Stored(begin + n, 0, raw[13:14], raw) for n, raw in enumerate(found)]


async def test_an_old_report_of_a_partition_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Written.records = [b'{"partition":1,"read_to":{"delay-requests":5}}'] + [OLD.replace(b"}", b',"reads":2}')] * 500
    monkeypatch.setattr(reports_module, "PartitionReader", Written)
    reports = reports_of()
    await reports.read()

    assert (reports.read_to(1, "delay-requests"), reports.lowest_version) == (5, 1)


# row versions --------------------------------------------------------------------------------------------------------
def reports_of(*values: bytes | None) -> LatestReports:
    reports = LatestReports(Settings.from_env({"DELAY_PARTITIONS": "2"}).topics, cast("Any", None))
    for value in values:
        reports._remember(b"1" if value and value.startswith(b'{"partition":1') else b"0", value)
    return reports


OLD, NEW, NEWEST = b'{"partition":0}', b'{"partition":1,"reads":2}', b'{"partition":1,"reads":3}'


@pytest.mark.parametrize(
    ("values", "version"),
    [
        ((), 4),
        ((OLD, NEW), 1),
        ((OLD, NEW, b'{"partition":0,"reads":2}'), 2),
        ((NEW, b'{"partition":0,"reads":9}'), 2),
        ((NEWEST, b'{"partition":0,"reads":9}'), 3),
    ],
)
async def test_rows_are_written_as_all_workers_read_them(values: tuple[bytes, ...], version: int) -> None:
    await asyncio.sleep(0)
    assert RowVersion(Settings.from_env({}).engine, reports_of(*values))() == version


async def test_a_requested_version_is_written_whatever_versions_others_read() -> None:
    for version in (1, 2, 3, 4):
        settings = Settings.from_env({"DELAY_ROW_VERSION": str(version)})
        assert RowVersion(settings.engine, reports_of(NEW))() == version


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b'{"partition":"x"}',
        b"[" * 100_000,
        b'{"partition":0,"reads":0}',
        b'{"partition":2,"reads":1}',
        b'{"partition":0,"read_to":{"delay-requests":1' + b"0" * 30 + b"}}",
        b'{"partition":0,"read_to":{"delay-requests":%d}}' % (1 << 56),
    ],
)
async def test_an_invalid_report_is_skipped(value: bytes | None) -> None:
    reports = reports_of(NEW, value)
    assert (reports.lowest_version, reports.read_to(0, "delay-requests")) == (2, -1)
