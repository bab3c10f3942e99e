"""Rows and steps for tests of the table, and the whole image of a store."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tables import Changes, Command, Entry, NamespaceRule, NamespaceShare, PartitionStore, keys
from tables.counts import display_name
from tables.entry import encode
from tables.near_counts import MINUTE_MS
from tables.shares import size_of

if TYPE_CHECKING:
    from tables.expiring_index import ExpiringIndex

CRC = keys.topic_crc("delay-requests")
NOW = 1_767_225_600_000
HOUR = keys.BUCKET_MS
#: Ids but `c` are each of a namespace of their own.
WHOSE = NamespaceRule(lambda id_: "" if id_ == "c" else f"team-{id_}", "")


def fast_directory() -> Path:
    """Make a directory, in memory where there is such a place: a test that opens hundreds of databases needs one."""
    memory = Path("/dev/shm")  # noqa: S108 - mkdtemp names it
    return Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))


def key(due_ms: int, offset: int = 0, crc: int = CRC) -> bytes:
    """Return a row key."""
    return keys.row_key(due_ms, offset, crc)


def entry(id_: str = "a", to: str = "orders", *commands: Command) -> Entry:
    """Return an entry with little in it."""
    return Entry(id_, to, b"k", b"v", [], "delay-requests-0-0", commands=commands)


def put(changes: Changes, row: bytes, what: Entry) -> None:
    """Add a new row to a step."""
    changes.put(row, what, encode(what))


def rewrite(changes: Changes, row: bytes, what: Entry) -> None:
    """Give a row another value in a step."""
    changes.rewrite(row, what, encode(what))


def apply(store: PartitionStore, changes: Changes, now_ms: int = NOW) -> list[tuple[bytes, bytes | None]]:
    """Apply a step as the journal does; return its changelog records."""
    records = list(changes.records(store.writer))
    store.apply(changes, store.offset + len(records), store.writer, now_ms)
    return records


def filled(path: Path, rows: dict[bytes, Entry]) -> PartitionStore:
    """Open a store and put rows in."""
    store = PartitionStore(path)
    changes = Changes()
    for row, what in rows.items():
        put(changes, row, what)
    apply(store, changes)
    return store


def image(store: PartitionStore) -> dict[bytes, bytes]:
    """Return everything that the database holds but how far it is."""
    return {key: value for key, value in store._db.items() if key[:1] != keys.META}


def assert_sound(store: PartitionStore) -> None:
    """Compare the derived data with a full scan of the rows."""
    rows = list(store.rows())
    destinations: dict[str, int] = {}
    hours: dict[int, int] = {}
    for row, what in rows:
        destinations[display_name(what.to)] = destinations.get(display_name(what.to), 0) + 1
        hours[keys.due_of(row) // HOUR] = hours.get(keys.due_of(row) // HOUR, 0) + 1
    assert [row for row, _ in rows] == sorted(row for row, _ in rows)
    assert store.counts.destinations == destinations
    assert store.counts.hours == hours
    assert store.counts.total == len(rows)
    if store.shares is not None:
        shares: dict[str, NamespaceShare] = {}
        for _, what in rows:
            if name := WHOSE.of_id(what.id):
                before = shares.get(name, NamespaceShare())
                shares[name] = NamespaceShare(before.messages + 1, before.bytes + size_of(what))
        for key, _ in store.marks():
            if name := WHOSE.of_id(key[1:].decode()):
                before = shares.get(name, NamespaceShare())
                shares[name] = NamespaceShare(before.messages, before.bytes, before.remembered + 1)
        assert store.shares.known == shares
        held = Counter((WHOSE.of_id(what.id), display_name(what.to)) for _, what in rows if what.to)
        of = store.shares.destinations
        assert {(sender, to): number for sender in of for to, number in of[sender].items()} == held
    near = store.counts.near
    looked_at = Counter(keys.due_of(row) // MINUTE_MS for row, _ in rows if row < near.end)
    assert near.minutes == looked_at
    there = dict(rows)
    ids = {raw[1:].decode(): row for raw, row in image(store).items() if raw[:1] == keys.ID}
    assert all(there[row].id == id_ for id_, row in ids.items())
    unmarked = [what.id for what in there.values() if what.url is None and not what.replaced]
    assert sorted(ids) == sorted(unmarked)
    kinds: dict[bytes, ExpiringIndex[Any]] = {
        keys.COMMANDS: store.commands,
        keys.DELIVERED: store.delivered,
        keys.COLD: store.cold_marks,
    }
    for kind, memory in kinds.items():
        marks = [raw for raw in image(store) if raw[:1] == kind]
        expiries = [raw for raw in image(store) if raw[:2] == keys.EXPIRY + kind]
        assert memory.count == len(marks) == len(expiries)
