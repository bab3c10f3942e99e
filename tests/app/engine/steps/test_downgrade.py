"""Rows that are rewritten for a downgrade: all rows, in steps of limited size, and no row in flight."""

from pathlib import Path

import msgspec
import pytest

from app.engine.steps.downgrade import Downgrade
from app.engine.steps.step import Step
from tables import PartitionStore
from tables.entry import decode
from tests.punctual.contract.records import NOW
from tests.tables.rows import apply, entry, filled, key

_LARGE = 1_000_000


def _never(_: bytes) -> bool:
    return False


def passes(store: PartitionStore, downgrade: Downgrade) -> list[int]:
    """Rewrite in steps until no more rows can be rewritten; return the sizes of the steps."""
    sizes = []
    for _ in range(20):
        step = Step(NOW, version=1)
        downgrade.put_into(step)
        sizes.append(step.size)
        apply(store, step.changes)
        if downgrade.over:
            break
    return sizes


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_rows_are_written_again_as_they_are(tmp_path: Path, version: int) -> None:
    rows = {key(n): msgspec.structs.replace(entry(f"a{n}"), stamp_ms=NOW) for n in range(2_500)}
    store = filled(tmp_path / "x.db", rows)
    downgrade = Downgrade(0, version, store, _never)
    assert (store.row_version, downgrade.over) == (4, False)
    passes(store, downgrade)

    assert (store.row_version, downgrade.over) == (version, True)
    assert {raw[0] for _, raw in store.raw_rows(b"")} == {version}
    assert {row: msgspec.structs.replace(decode(raw), stamp_ms=NOW) for row, raw in store.raw_rows(b"")} == rows


def test_a_row_in_flight_is_rewritten_afterwards(tmp_path: Path) -> None:
    store = filled(tmp_path / "x.db", {key(1): entry("a"), key(2): entry("b")})
    busy = {key(1)}
    downgrade = Downgrade(0, 1, store, busy.__contains__)
    passes(store, downgrade)
    assert [raw[0] for _, raw in store.raw_rows(b"")] == [4, 1]
    busy.clear()
    passes(store, downgrade)

    assert [raw[0] for _, raw in store.raw_rows(b"")] == [1, 1]


def test_a_large_row_goes_alone(tmp_path: Path) -> None:
    large = msgspec.structs.replace(entry("large"), value=bytes(_LARGE))
    rows = {key(n): entry(f"a{n}") for n in range(500)} | {key(500): large} | {key(501): large}
    store = filled(tmp_path / "x.db", rows)
    sizes = passes(store, Downgrade(0, 1, store, _never))

    assert max(sizes) < _LARGE + 1_000
    assert {raw[0] for _, raw in store.raw_rows(b"")} == {1}
