"""Changelogs with unreadable records: each error names a record, and there is a way to continue."""

from pathlib import Path

import pytest

from tables import (
    Changes,
    ColdMark,
    Inspection,
    PartitionStore,
    Position,
    RecordsGarbled,
    RecordUnreadable,
    RememberedCommands,
    keys,
)
from tables.changes import RememberedDelivery, cold_mark_bytes, delivered_bytes, position_bytes
from tables.commands import commands_bytes
from tables.entry import encode
from tables.inspection import trouble
from tables.restore import EPOCHS, RestoreProgress, StaleFilter, restore
from tests.harness.fuzz import Pair, mangled, seeds
from tests.tables.rows import NOW, assert_sound, entry, key
from tests.tables.test_restore import Changelog, Stored, row, stamp

NAME = "delay-delays-changelog-3"
GENUINE: list[Pair] = [
    (keys.WRITER, keys.long_bytes(1)),
    (key(1), encode(entry("x"))),
    (keys.COMMANDS + b"a", commands_bytes(RememberedCommands(1, 2, "delay-requests-0-1"))),
    (keys.DELIVERED + b"b", delivered_bytes(RememberedDelivery(1, 2))),
    (keys.COLD + b"c", cold_mark_bytes(ColdMark("delay-requests-0-1", 5, kept=True))),
    (keys.origin_key("delay-requests", 2), keys.long_bytes(7)),
    (keys.POSITION + b"delay-requests", position_bytes(Position(1, NOW, 0))),
    (keys.SEAL, b"delay-p24-delays-changelog"),
]


async def restored(
    path: Path, log: list[Stored], skip: tuple[int, ...] = (), *, looked_at: bool = True
) -> PartitionStore:
    """Restore a new store from a changelog."""
    store = PartitionStore(path)
    try:
        await restore(
            store,
            Changelog(log),
            RestoreProgress(3, lambda: 0),
            lambda: NOW,
            skip,
            Inspection(NAME, skip) if looked_at else None,
        )
    except BaseException:
        store.close()
        raise
    return store


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Stored(b"?", b""), "of an unknown kind"),
        (Stored(key(7), b""), "index out of range"),
        (Stored(key(7), b"\x09"), "a row has version 9"),
        (Stored(key(7), b"\x01\xc1"), "MessagePack"),
        (Stored(key(7)[:19], encode(entry())), "the key of a row must have 20 bytes, not 19"),
        (Stored(keys.COMMANDS + b"\xff", b""), "utf-8"),
        (
            Stored(keys.COMMANDS + b"a", commands_bytes(RememberedCommands(0, -1, ""))),
            "its expiry is not a valid time",
        ),
        (Stored(keys.ORIGIN + b"a-0", b"\x00" * 9), "its value must have 8 bytes"),
        (Stored(keys.POSITION + b"a", position_bytes(Position(0, 0, 0, 1 << 63))), "its offsets are not valid"),
    ],
)
async def test_a_record_that_cannot_be_read_is_named_and_can_be_left_out(tmp_path: Path, bad: Stored, why: str) -> None:
    log = [stamp(1), row(1), bad, row(2)]
    with pytest.raises(RecordsGarbled):
        await restored(tmp_path / "x.db", log, looked_at=False)
    with pytest.raises(RecordUnreadable) as raised:
        await restored(tmp_path / "x.db", log)

    assert f"the changelog record {NAME}-2 cannot be read: " in str(raised.value)
    assert why in str(raised.value)
    assert f"set DELAY_ACCEPT_LOSS={NAME}-2 and restart" in str(raised.value)
    store = await restored(tmp_path / "x.db", log, skip=(2,))
    assert [keys.due_of(found) for found, _ in store.rows()] == [1, 2]
    assert store.foreign.keys == {bad.key}  # the truth about it is written again
    assert store.offset == len(log)


async def test_a_row_that_was_written_again_since_needs_no_decision(tmp_path: Path) -> None:
    """A row that a worker has repaired while it ran stops no later start."""
    store = await restored(tmp_path / "x.db", [stamp(1), Stored(b"?", b"x"), row(1), stamp(1), Stored(b"?", None)])

    assert (store.counts.total, store.foreign.keys) == (1, set())


async def test_until_all_records_are_read_the_store_stays_before_the_unreadable_one(tmp_path: Path) -> None:
    """Otherwise a worker that is interrupted would not find the record again."""
    log = [stamp(1), row(1), row(2), row(3), Stored(b"?", b"x"), row(4), row(5)]
    with pytest.raises(RecordUnreadable):
        await restored(tmp_path / "x.db", log)

    assert PartitionStore(tmp_path / "x.db").offset == 3  # the changelog gives three at a time


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x00" * 9, b"\xff" * 8, keys.long_bytes(EPOCHS)])
def test_a_batch_whose_stamp_no_owner_can_have_written_is_nobodys(value: bytes) -> None:
    stale = StaleFilter(1)

    found = list(stale.accept([stamp(1), row(1), Stored(keys.WRITER, value), row(2), stamp(1), row(3)]))
    assert found == [record[:2] for record in (stamp(1), row(1), stamp(1), row(3))]
    assert (stale.writer, stale.keys) == (1, {key(2)})


def test_a_stamp_that_is_to_be_left_out_is_nobodys() -> None:
    stale = StaleFilter(1, skip=(2,))

    log = [stamp(1), row(1), stamp(EPOCHS - 1), row(2), stamp(2), row(3)]
    found = list(stale.accept(record._replace(offset=offset) for offset, record in enumerate(log)))
    assert found == [record[:2] for record in (stamp(1), row(1), stamp(2), row(3))]
    assert stale.writer == 2


async def test_no_bytes_break_a_restore(tmp_path: Path) -> None:
    clean = 0
    log = [Stored(*GENUINE[0]), *(row(due) for due in range(10, 14)), *(Stored(*pair) for pair in GENUINE[1:])]
    for seed in seeds():
        path, bad = tmp_path / f"{seed}.db", Stored(*mangled(seed, GENUINE))
        forged = [*log, bad, *log]
        try:
            store = await restored(path, forged, looked_at=False)
        except RecordsGarbled:
            try:
                store = await restored(path, forged)
            except RecordUnreadable:
                store = await restored(path, forged, (len(log),))
        clean += not store.foreign.keys
        if trouble(bad.key or b"", bad.value) is not None:  # else it is believed, and may be of an id that is there
            assert_sound(store)
        store.apply(Changes(), store.offset, store.writer + 1, NOW)  # as the next owner does
        store.wipe()
    assert clean
