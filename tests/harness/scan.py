"""Scans a stopped worker's databases row by row: derived counters and indexes must follow from the rows."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tables import Entry, PartitionStore, keys
from tables.restore import StaleFilter
from tests.harness.kafka import read
from tests.harness.worker import Worker

if TYPE_CHECKING:
    from tables.expiring_index import ExpiringIndex


def scan(path: Path) -> dict[str, Entry]:
    """Look through one database, and return its rows by id; fails if counts or indexes differ from the rows."""
    store = PartitionStore(path)
    try:
        rows = dict(store.rows())
        _check(store, rows)
    finally:
        store.close()
    return {entry.id: entry for entry in rows.values()}


def scan_all(worker: Worker) -> dict[str, Entry]:
    """Look through all databases of a stopped worker, and return their rows by id."""
    assert not worker.alive, "its databases are open"
    found: dict[str, Entry] = {}
    for path in worker.tables():
        found |= scan(path)
    return found


def _check(store: PartitionStore, rows: dict[bytes, Entry]) -> None:
    name = store.path.name
    destinations = Counter(entry.to for entry in rows.values())
    assert store.counts.destinations == destinations, f"{name}: counts {store.counts.destinations}, rows {destinations}"
    hours = Counter(keys.due_of(key) // keys.BUCKET_MS for key in rows)
    assert store.counts.hours == hours, f"{name}: hours {store.counts.hours}, rows {hours}"
    assert store.counts.total == len(rows), f"{name}: total {store.counts.total}, rows {len(rows)}"
    # A row that is replaced while it is being sent leaves its id to the row that replaces it.
    owners = {entry.id: key for key, entry in rows.items() if all(c.op != "replace" for c in entry.commands)}
    index = {key[1:].decode(): row for key, row in store._scan(keys.ID)}
    assert index == owners, f"{name}: the id index differs from the rows by {set(index.items()) ^ set(owners.items())}"
    kinds: dict[bytes, ExpiringIndex[Any]] = {
        keys.COMMANDS: store.commands,
        keys.DELIVERED: store.delivered,
        keys.COLD: store.cold_marks,
    }
    for kind, memory in kinds.items():
        marks = {key[1:] for key, _ in store._scan(kind)}
        ends = [key[len(kind) + 9 :] for key, _ in store._scan(keys.EXPIRY + kind)]
        assert sorted(marks) == sorted(ends), f"{name}: {kind!r} of {marks}, their ends {ends}"
        assert memory.count == len(marks), f"{name}: {memory.count} {kind!r} counted, {len(marks)} there"


def check_image(worker: Worker, bootstrap: str, directory: Path) -> None:
    """Check that each database of a stopped worker is the exact image of the changelog up to its offset."""
    assert not worker.alive, "its databases are open"
    changelog = list(read(bootstrap, f"{worker.app_id}-delays-changelog"))
    for path in worker.tables():
        number = int(path.stem.rsplit("-", 1)[1])
        there, image = PartitionStore(path), PartitionStore(directory)
        try:
            _check(there, dict(there.rows()))
            records = [record for record in changelog if record.partition == number and record.offset < there.offset]
            image.replay(StaleFilter(0).accept(records), there.offset, 0)
            assert _content(there) == _content(image), f"{path.name} differs from the changelog"
        finally:
            there.close()
            image.wipe()


def _content(store: PartitionStore) -> dict[bytes, bytes]:
    """Return everything in a database but its notes about itself."""
    return {key: value for key, value in store._db.items() if key[:1] != keys.META}
