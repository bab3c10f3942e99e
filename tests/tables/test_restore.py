"""Recovery: zombies are kept out, chunks come as they may, and people see how far it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tables import PartitionStore, keys
from tables.entry import encode
from tables.restore import RestoreProgress, StaleFilter, restore
from tests.tables.rows import NOW, assert_sound, entry, key


class Stored(NamedTuple):
    """A changelog record."""

    key: bytes | None
    value: bytes | None
    offset: int = -1


class Changelog:
    """A changelog with gaps, as compaction leaves them: a list of records, None where one was."""

    def __init__(self, records: Sequence[Stored | None], begin: int = 0, *, pauses: bool = False) -> None:
        self._records = [record and record._replace(offset=offset) for offset, record in enumerate(records)]
        self._position, self._pauses = begin, pauses
        self.asked = 0

    async def end(self) -> int:
        return len(self._records)

    async def position(self) -> int:
        return self._position

    async def chunk(self, limit: int) -> list[Stored]:
        self.asked += 1
        if self._pauses and self.asked % 2:
            return []
        found = self._records[self._position : self._position + min(limit, 3)]
        self._position += len(found)
        return [record for record in found if record is not None]


def stamp(epoch: int) -> Stored:
    return Stored(keys.WRITER, keys.long_bytes(epoch))


def row(due: int, id_: str = "") -> Stored:
    return Stored(key(due), encode(entry(id_ or f"id-{due}")))


@pytest.mark.parametrize("pauses", [False, True])
async def test_a_store_is_brought_to_the_changelogs_end_in_chunks(tmp_path: Path, *, pauses: bool) -> None:
    store = PartitionStore(tmp_path / "x.db")
    log = [stamp(1), *(row(due) for due in range(10)), Stored(key(3), None), None, None, None]
    stale = await restore(store, Changelog(log, pauses=pauses), RestoreProgress(0, lambda: 0), lambda: NOW)

    assert stale == set()
    assert [keys.due_of(found) for found, _ in store.rows()] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert (store.offset, store.seen_ms, store.writer) == (len(log), NOW, 1)
    assert_sound(store)


class Cut(Changelog):
    """A changelog whose reader is cut off."""

    async def chunk(self, limit: int) -> list[Stored]:
        if self.asked:
            raise ConnectionError
        return await super().chunk(limit)


async def test_an_interrupted_recovery_leaves_the_store_as_old_as_its_content(tmp_path: Path) -> None:
    """Unread tombstones of that content may be compacted away before they are read."""
    store = PartitionStore(tmp_path / "x.db")
    log = [stamp(1), *(row(due) for due in range(10))]
    for now in (NOW, NOW + 1, NOW + 2):
        with pytest.raises(ConnectionError):
            await restore(store, Cut(log, store.offset), RestoreProgress(0, lambda: 0), lambda now=now: now)  # type: ignore[misc]
        assert store.seen_ms == NOW
    await restore(store, Changelog(log, store.offset), RestoreProgress(0, lambda: 0), lambda: NOW + 3)

    assert (store.offset, store.seen_ms) == (11, NOW + 3)


async def test_recovery_goes_on_from_where_the_store_is(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    log = [stamp(1), *(row(due) for due in range(10))]
    await restore(store, Changelog(log[:5]), RestoreProgress(0, lambda: 0), lambda: NOW)
    reader = Changelog(log, store.offset)
    progress = RestoreProgress(0, lambda: 0)
    await restore(store, reader, progress, lambda: NOW)

    assert (progress.begin, progress.position, progress.end, progress.rows) == (5, 11, 11, 6)
    assert store.counts.total == 10


async def test_a_store_at_the_end_reads_no_record(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db")
    reader = Changelog([])

    assert await restore(store, reader, RestoreProgress(0, lambda: 0), lambda: NOW) == set()
    assert reader.asked == 0


async def test_records_of_a_zombie_after_its_successors_stamp_are_ignored_and_their_keys_reported(
    tmp_path: Path,
) -> None:
    store = PartitionStore(tmp_path / "x.db")
    log = [
        stamp(1),
        row(1),
        row(2),
        stamp(2),
        stamp(1),  # the zombie
        Stored(key(1), None),
        row(3, "zombie"),
        stamp(2),
        row(4),
        stamp(1),
        row(5, "zombie"),
        stamp(3),
        row(6),
    ]
    stale = await restore(store, Changelog(log), RestoreProgress(0, lambda: 0), lambda: NOW)

    assert stale == {key(1), key(3), key(5)}
    assert [keys.due_of(found) for found, _ in store.rows()] == [1, 2, 4, 6]
    assert store.writer == 3


def test_a_zombies_batch_is_one_also_when_a_chunk_ends_in_it() -> None:
    stale = StaleFilter(2)

    assert list(stale.accept([stamp(1), row(1)])) == []
    assert list(stale.accept([row(2), stamp(2), row(3)])) == [stamp(2)[:2], row(3)[:2]]
    assert stale.keys == {key(1), key(2)}


def test_a_writer_of_the_same_epoch_goes_on() -> None:
    records = [stamp(2), row(1), stamp(2), row(2), stamp(7), row(3)]
    stale = StaleFilter(2)

    assert list(stale.accept(records)) == [record[:2] for record in records]
    assert stale.writer == 7


class TestProgress:
    """What people read of a recovery."""

    @pytest.fixture
    def progress(self) -> RestoreProgress:
        self.now_ms = 100_000
        return RestoreProgress(3, lambda: self.now_ms)

    def test_it_says_how_far_it_is_how_fast_and_how_long_it_takes(self, progress: RestoreProgress) -> None:
        progress.start(1_000, 11_000)
        self.now_ms += 2_000
        progress.advance(6_000, 4_000)

        assert str(progress) == "restoring partition 3: 4,000 records, offset 6,000 of 11,000, 2,000 a second, 2 s left"

    def test_it_does_not_guess_before_it_has_begun(self, progress: RestoreProgress) -> None:
        progress.start(1_000, 11_000)

        assert progress.seconds_left is None
        assert str(progress) == "restoring partition 3: 0 records, offset 1,000 of 11,000, 0 a second"

    def test_progress_is_logged_every_other_second(
        self, progress: RestoreProgress, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "tables.restore")
        progress.start(0, 100)
        for position in range(1, 60):
            self.now_ms += 125
            progress.advance(position, 1)

        assert [message[:34] for message in caplog.messages] == [
            f"restoring partition 3: {records} records," for records in (16, 32, 48)
        ]
        progress.finish()
        assert caplog.messages[-1].endswith(": done")

    def test_a_short_recovery_logs_no_progress(
        self, progress: RestoreProgress, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "tables.restore")
        progress.start(0, 100)
        self.now_ms += 1_000
        progress.advance(100, 100)
        progress.finish()

        assert not caplog.messages
