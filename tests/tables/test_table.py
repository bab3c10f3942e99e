"""The table opens, renews and closes the stores of its partitions."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import faust
import pytest

from tables import Changes, DelayTable, PartitionStore, StoreUnusable
from tables.inspection import ChangelogRecord
from tests.tables.rows import entry, key, put

DAY_MS = 86_400_000


@pytest.fixture
def table(tmp_path: Path) -> Iterator[DelayTable]:
    app = faust.App("delay", datadir=str(tmp_path), store="memory://")
    table = app.tables.add(
        DelayTable(
            app, name="delays", partitions=4, key_type=bytes, value_type=bytes, now_ms=now_ms, monotonic_ms=now_ms
        )
    )
    yield table
    for number in list(table.stores):
        table.close(number)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def used(table: DelayTable, seen_ms: int) -> None:
    """Leave a store with one row behind that was at the changelog's end at `seen_ms`."""
    store = table.open(2, 0)
    changes = Changes()
    put(changes, key(1), entry())
    store.apply(changes, 5, 1, seen_ms)
    table.close(2)


def test_each_partition_has_a_store_of_its_own(table: DelayTable) -> None:
    table.open(1, 0)
    table.open(2, 0)

    assert table.stores[1].path != table.stores[2].path
    assert table.stores[1].path.name == "delays-1.db"
    assert set(table.stores) == {1, 2}


def test_a_store_that_is_open_is_opened_once(table: DelayTable) -> None:
    assert table.open(2, 0) is table.open(2, 0)


def test_a_store_that_was_up_to_date_lately_is_kept(table: DelayTable) -> None:
    used(table, now_ms())

    assert table.open(2, now_ms() - 3 * DAY_MS).find("a") == key(1)


def test_a_store_that_was_closed_longer_than_tombstones_are_kept_starts_again(
    table: DelayTable, caplog: pytest.LogCaptureFixture
) -> None:
    used(table, now_ms() - 4 * DAY_MS)
    store = table.open(2, now_ms() - 3 * DAY_MS)

    assert (store.offset, store.find("a"), store.counts.total) == (0, None, 0)
    assert table.stores[2] is store
    assert caplog.messages[0] == (
        "partition 2: the local database was last up to date 4.0 days ago. Newer tombstones may be compacted away, "
        "so it is restored from the changelog"
    )


def test_a_damaged_store_starts_again(table: DelayTable, caplog: pytest.LogCaptureFixture) -> None:
    used(table, now_ms())
    (table.path(2) / "CURRENT").write_bytes(b"rubbish")
    store = table.open(2, 0)

    assert (store.offset, store.find("a"), store.counts.total) == (0, None, 0)
    assert caplog.messages[0].startswith(f"partition 2: the database {table.path(2)} is damaged (")


def test_a_directory_that_cannot_be_created_is_an_error(table: DelayTable) -> None:
    table.path(2).parent.parent.mkdir(parents=True)
    table.path(2).parent.touch()

    with pytest.raises(StoreUnusable, match=r"delays-2.db cannot be used \(.*File exists"):
        table.open(2, 0)


def test_a_store_that_cannot_be_closed_is_let_go(
    table: DelayTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def close(store: PartitionStore) -> None:
        raise StoreUnusable(str(store.path), "disk full")

    table.open(2, 0)
    monkeypatch.setattr(PartitionStore, "close", close)
    table.close(2)

    assert table.stores == {}
    assert "disk full" in caplog.messages[0]


def test_a_store_that_is_new_is_not_old(table: DelayTable, caplog: pytest.LogCaptureFixture) -> None:
    table.open(2, now_ms())

    assert caplog.messages == []


def test_a_renewed_store_is_empty(table: DelayTable) -> None:
    used(table, now_ms())
    table.open(2, 0)

    assert table.renew(2).find("a") is None
    assert table.stores[2].offset == 0


def test_a_closed_store_can_be_opened_by_others(table: DelayTable) -> None:
    path = table.open(2, 0).path
    table.close(2)
    table.close(2)

    PartitionStore(path).close()
    assert table.stores == {}


class Broken:
    """A reader whose cluster goes away."""

    async def end(self) -> int:
        return 10

    async def position(self) -> int:
        return 0

    async def chunk(self, limit: int) -> Sequence[ChangelogRecord]:
        msg = f"no {limit} records"
        raise ConnectionError(msg)


async def test_progress_is_shown_while_a_restore_goes_on_and_not_after(table: DelayTable) -> None:
    table.open(2, 0)
    seen = []

    class Empty(Broken):
        async def end(self) -> int:
            seen.append(str(table.progress[2]))
            return 0

    assert await table.restore(2, Empty()) == set()
    assert seen == ["restoring partition 2: 0 records, offset 0 of 0, 0 a second"]
    with pytest.raises(ConnectionError):
        await table.restore(2, Broken())
    assert table.progress == {}


async def test_the_table_keeps_its_rows_in_its_own_stores_not_in_fausts(table: DelayTable) -> None:
    await table.on_start()
    await table.on_rebalance(set(), set(), set())

    assert table.stores == {}
