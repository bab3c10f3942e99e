"""A zombie's batch is known as such however often recovery is cut off, until the truth is written again."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tables import Changes, PartitionStore
from tables.restore import RestoreProgress, restore
from tests.tables.rows import NOW, key
from tests.tables.test_restore import Changelog, Stored, row, stamp

LOG = [stamp(1), row(1), stamp(2), stamp(1), Stored(key(1), None), row(3), row(4), row(5), stamp(2), row(6)]
DOUBTED = {key(1), key(3), key(4), key(5)}


async def restore_up_to(path: Path, log: Sequence[Stored]) -> PartitionStore:
    """Open a store and continue at its offset, as a process does with a changelog of this length."""
    store = PartitionStore(path)
    await restore(store, Changelog(log, store.offset), RestoreProgress(0, lambda: 0), lambda: NOW)
    return store


@pytest.mark.parametrize("cut", range(1, len(LOG)))
async def test_a_recovery_that_is_cut_off_anywhere_keeps_the_zombie_out(tmp_path: Path, cut: int) -> None:
    (await restore_up_to(tmp_path / "x.db", LOG[:cut])).close()
    store = await restore_up_to(tmp_path / "x.db", LOG)

    assert [found for found, _ in store.rows()] == [key(1), key(6)]
    assert store.foreign.keys == DOUBTED
    assert store.offset == len(LOG)


async def test_the_keys_stay_in_doubt_over_restarts_until_they_are_taken_out(tmp_path: Path) -> None:
    (await restore_up_to(tmp_path / "x.db", LOG)).close()
    store = await restore_up_to(tmp_path / "x.db", LOG)
    assert store.foreign.keys == DOUBTED
    store.foreign.keys.clear()
    store.apply(Changes(), len(LOG) + 1, 2, NOW)
    store.close()

    assert PartitionStore(tmp_path / "x.db").foreign.keys == set()
