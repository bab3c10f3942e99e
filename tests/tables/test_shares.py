"""Pending messages per namespace are counted with each step, and again if a step was not counted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tables import Changes, Entry, NamespaceRule, NamespaceShare, PartitionStore, keys
from tables.entry import encode
from tables.inspection import ChangelogRecord
from tables.restore import RestoreProgress, restore
from tables.shares import size_of
from tests.tables.rows import CRC, NOW, WHOSE, apply, assert_sound, entry, image, key, put


class Empty:
    """A changelog whose records are all in the store."""

    async def end(self) -> int:
        return 0

    async def chunk(self, _limit: int) -> Sequence[ChangelogRecord]:
        return []

    async def position(self) -> int:
        return 0


def known(store: PartitionStore) -> dict[str, NamespaceShare]:
    assert store.shares is not None
    return dict(store.shares.known)


def fill(store: PartitionStore, *ids: str) -> None:
    changes = Changes()
    for id_ in ids:
        put(changes, key(NOW, ord(id_)), entry(id_))
    apply(store, changes)


def test_shares_have_messages_and_the_windows_that_their_senders_have_chosen() -> None:
    assert size_of(Entry("x", "orders", b"key", b"value", [("name", b"12"), ("none", None)], "s-0-0")) == 18
    assert size_of(Entry("x", "orders", None, None, [], "s-0-0")) == 0


def test_shares_are_there_again_when_the_store_is_opened(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "s.db", WHOSE)
    fill(store, "a", "c")
    store.close()

    store = PartitionStore(tmp_path / "s.db", WHOSE)
    assert known(store) == {"team-a": NamespaceShare(1, 2)}
    assert_sound(store)
    store.close()


def test_a_store_without_a_function_for_owners_has_no_shares(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "s.db")
    fill(store, "a")

    assert store.shares is None
    assert not [raw for raw in image(store) if raw.startswith(b"s")]
    store.close()


@pytest.mark.parametrize("steps_between", [0, 1])
def test_a_share_with_unknown_or_missing_counts_is_counted_again(tmp_path: Path, steps_between: int) -> None:
    store = PartitionStore(tmp_path / "s.db", WHOSE)
    fill(store, "a", "b", "c")
    store.close()
    if steps_between:  # by a worker that does not count
        store = PartitionStore(tmp_path / "s.db")
        fill(store, "d")
        store.close()
        store = PartitionStore(tmp_path / "s.db", WHOSE)
        assert known(store) == {
            "team-a": NamespaceShare(1, 2),
            "team-b": NamespaceShare(1, 2),
            "team-d": NamespaceShare(1, 2),
        }
        assert_sound(store)
        store.close()

    other = NamespaceRule(lambda id_: "all" if id_ != "a" else "", "another")
    store = PartitionStore(tmp_path / "s.db", other)
    assert known(store) == {"all": NamespaceShare(2 + steps_between, 2 * (2 + steps_between))}
    fill(store, "e")
    store.close()
    store = PartitionStore(tmp_path / "s.db", other)
    assert known(store) == {"all": NamespaceShare(3 + steps_between, 2 * (3 + steps_between))}
    assert sorted(raw for raw in image(store) if raw.startswith(b"s")) == [b"s\0orders", b"sall", b"sall\0orders"]
    store.close()


@pytest.mark.parametrize("inputs", [None, {CRC: "payments"}])
def test_destinations_are_counted_for_each_sender(tmp_path: Path, inputs: dict[int, str] | None) -> None:
    namespace_rule = NamespaceRule(WHOSE.of_id, "of inputs", inputs)
    store = PartitionStore(tmp_path / "s.db", namespace_rule)
    fill(store, "a", "b", "c")
    changes = Changes()
    changes.put_plain([key(NOW, 7), key(NOW, 8, crc=5)], [encode(entry("a", "jobs")), encode(entry("d", "jobs"))], 0)
    apply(store, changes)
    everywhere = {
        None: {"": {"orders": 1}, "team-a": {"orders": 1, "jobs": 1}, "team-b": {"orders": 1}, "team-d": {"jobs": 1}},
        CRC: {"payments": {"orders": 3, "jobs": 1}, "": {"jobs": 1}},
    }[CRC if inputs else None]
    assert store.shares is not None
    assert store.shares.destinations == everywhere
    store.close()

    store = PartitionStore(tmp_path / "s.db", namespace_rule)
    assert store.shares is not None
    assert store.shares.destinations == everywhere
    changes = Changes()
    changes.remove_plain([key(NOW, 7), key(NOW, 8, crc=5)], [encode(entry("a", "jobs")), encode(entry("d", "jobs"))])
    apply(store, changes)
    assert {to for of in store.shares.destinations.values() for to in of} == {"orders"}
    store.close()


def test_destinations_of_urls_are_origins_and_callbacks_have_none(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "s.db", WHOSE)
    changes = Changes()
    put(changes, key(NOW, 1), entry("a", "https://h.example/x"))
    put(changes, key(NOW, 2), entry("b", ""))
    apply(store, changes)
    assert store.shares is not None
    assert store.shares.destinations == {"team-a": {"https://h.example": 1}}
    store.close()


async def test_counting_again_leaves_time_for_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tables.restore.CHUNK", 2)
    store = PartitionStore(tmp_path / "s.db")
    fill(store, "a", "b", "c", "d", "e")
    store.close()
    store = PartitionStore(tmp_path / "s.db", WHOSE)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await restore(store, Empty(), RestoreProgress(0, lambda: 0), lambda: NOW)
    beside.cancel()
    assert turns >= 2
    assert known(store) == {f"team-{id_}": NamespaceShare(1, 2) for id_ in "abde"}
    assert_sound(store)
    store.close()


def test_a_step_waits_until_all_is_counted(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "s.db")
    fill(store, "a", "b")
    store.close()
    store = PartitionStore(tmp_path / "s.db", WHOSE)
    fill(store, "d")

    assert known(store) == {f"team-{id_}": NamespaceShare(1, 2) for id_ in "abd"}
    assert_sound(store)
    store.close()


def test_a_seal_in_the_database_is_no_share(tmp_path: Path) -> None:
    store = PartitionStore(tmp_path / "x.db", WHOSE)
    fill(store, "a")
    store.replay([(keys.SEAL, b"other-changelog")], store.offset + 1, NOW)
    store.close()
    store = PartitionStore(tmp_path / "x.db", WHOSE)
    assert (store.sealed, "" in known(store)) == (b"other-changelog", False)
    store.close()
