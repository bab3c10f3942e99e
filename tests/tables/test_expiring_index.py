"""Marks that are kept for a limited time are found by their expiry, without a scan of expired ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tables import Changes, PartitionStore, expiring_index, keys
from tables.changes import RememberedDelivery
from tables.database import Database
from tests.tables.rows import NOW, apply


@pytest.fixture
def store(tmp_path: Path) -> PartitionStore:
    return PartitionStore(tmp_path / "x.db")


def remember(store: PartitionStore, *ends: int, until: bool = True) -> None:
    """Remember the delivery of an ID at each of these times, or forget it."""
    changes = Changes()
    changes.delivered = {f"id-{end}": RememberedDelivery(NOW, NOW + end) if until else None for end in ends}
    apply(store, changes)


def test_a_look_starts_after_forgotten_entries(store: PartitionStore, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_found_entry_is_found_again_until_it_is_forgotten(store: PartitionStore) -> None:
    remember(store, 1, 2, 3)
    assert store.delivered.expired(NOW + 9, 2) == ["id-1", "id-2"]
    assert store.delivered.expired(NOW + 9, 2) == ["id-1", "id-2"]
    remember(store, 1, until=False)
    assert store.delivered.expired(NOW + 9, 9) == ["id-2", "id-3"]


def test_expired_entries_are_found_until_they_are_forgotten_and_the_others_are_examined_once(
    store: PartitionStore,
) -> None:
    remember(store, 1, 2, 3, 4, 5)
    seen: list[int] = []

    def is_even(mark: RememberedDelivery) -> bool:
        seen.append(mark.expires_ms - NOW)
        return mark.expires_ms % 2 == 0

    assert store.delivered.spent(NOW + 5, 10, is_even) == ["id-2", "id-4"]
    assert store.delivered.spent(NOW + 5, 10, is_even) == ["id-2", "id-4"]
    remember(store, 2, 4, until=False)
    seen.clear()
    assert store.delivered.spent(NOW + 6, 10, is_even) == []
    assert seen == [3, 5]
    assert store.delivered.spent(NOW + 6, 10, is_even) == []
    assert seen == [3, 5]
    assert store.delivered.expired(NOW + 9, 10) == ["id-1", "id-3", "id-5"]


def test_looks_for_expired_entries_continue_where_they_ended(store: PartitionStore) -> None:
    remember(store, *range(1, 10))
    found = [store.delivered.spent(NOW + 100, 4, lambda mark: mark.expires_ms == NOW + 9) for _ in range(4)]
    assert found[-1] == ["id-9"]


@pytest.mark.core
def test_an_id_that_was_remembered_long_ago_is_distinguished_from_an_unknown_one(store: PartitionStore) -> None:
    for first in range(0, 60_000, 5_000):
        remember(store, *range(first, first + 5_000))
        remember(store, *range(first, first + 5_000), until=False)
        remember(store, 99_999)
    assert sum(store.delivered.may_have(f"id-{number}") for number in range(60_000)) < 10
    assert store.delivered.may_have("id-99999")
    assert store.delivered.first_of(["id-1", "id-2", "id-99999", "id-3"]) == 2
    assert store.delivered.first_of(["id-1", "id-2"]) is None


def test_more_ids_than_a_place_can_count_are_all_found(store: PartitionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring_index, "_PLACES", 1)
    remember(store, *range(300))
    remember(store, *range(299), until=False)
    assert store.delivered.get("id-299") is not None
    assert store.delivered.get_many(["id-1", "id-299"])[1] is not None
