"""What is remembered for a while is looked for where it ends, and not among what was forgotten before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables import Changes, PartitionStore, keys
from tables.changes import RememberedDelivery
from tables.database import Database
from tests.tables.rows import NOW, apply


@pytest.fixture
def store(tmp_path: Path) -> PartitionStore:
    return PartitionStore(tmp_path / "x.db")


def remember(store: PartitionStore, *ends: int, until: bool = True) -> None:
    """Remember the delivery of an id for each of these times, or forget it."""
    changes = Changes()
    changes.delivered = {f"id-{end}": RememberedDelivery(NOW, NOW + end) if until else None for end in ends}
    apply(store, changes)


def test_a_look_begins_behind_what_was_forgotten(store: PartitionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(store, *range(1, 100), 500)
    looked: list[bytes] = []
    go_through = Database.keys

    def noted(self: Database, start: bytes, end: bytes) -> Iterator[bytes]:
        looked.append(start)
        return go_through(self, start, end)

    monkeypatch.setattr(Database, "keys", noted)
    while found := store.delivered.expired(NOW + 99, 40):
        remember(store, *(int(id_.partition("-")[2]) for id_ in found), until=False)
    store.delivered.expired(NOW + 99, 40)
    at = [keys.expiry_key(keys.DELIVERED, NOW + end, b"") for end in (1, 41, 81, 100)]
    assert looked[1] >= at[0]
    assert looked[2] >= at[1]
    assert looked[3] >= at[2]
    assert looked[-1] == at[3]


def test_what_ends_before_where_was_looked_last_is_found(store: PartitionStore) -> None:
    remember(store, 500)
    assert store.delivered.expired(NOW + 400, 10) == []
    remember(store, 50)
    assert store.delivered.expired(NOW + 400, 10) == ["id-50"]


def test_what_was_found_is_found_again_until_it_is_forgotten(store: PartitionStore) -> None:
    remember(store, 1, 2, 3)
    assert store.delivered.expired(NOW + 9, 2) == ["id-1", "id-2"]
    assert store.delivered.expired(NOW + 9, 2) == ["id-1", "id-2"]
    remember(store, 1, until=False)
    assert store.delivered.expired(NOW + 9, 9) == ["id-2", "id-3"]


def test_of_many_ids_one_may_be_remembered_if_any_may(store: PartitionStore) -> None:
    assert not store.delivered.may_have_any(["id-1", "id-2"])
    remember(store, 2)

    assert store.delivered.may_have_any(["id-1", "id-2", "id-3"])
    assert not store.delivered.may_have_any(["id-1", "id-3"])
    assert not store.delivered.may_have_any([])
