"""Which row an id has: an entry a message in the database."""

from collections.abc import Sequence

import rocksdict

from tables import keys
from tables.database import Database
from tables.entry import Entry


class IdIndex:
    """The ids of one partition's messages, and the keys of their rows.

    Callbacks are left out: each bears the id of a message that has ended.
    """

    def __init__(self, db: Database) -> None:
        """Know of no clash."""
        self._db = db
        #: Rows found in recovery whose id has a later row: what is left of them is replaced.
        self.clashes: set[bytes] = set()
        #: What a replay makes of ids, until it is written.
        self._replayed: dict[bytes, bytes | None] = {}

    def find(self, id_: str) -> bytes | None:
        """Return the key of the row with this id, or None."""
        return self._db.get(keys.ID + id_.encode())

    def find_many(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the keys of the rows with these ids, None where there is none, in one read."""
        return self._db.get_many([keys.ID + id_.encode() for id_ in ids])

    def drop(self, batch: rocksdict.WriteBatch, key: bytes, entry: Entry) -> None:
        """Drop a row's id unless a later row of the same id has taken it."""
        if entry.url is not None:
            return
        id_key = keys.ID + entry.id.encode()
        shared = bool(entry.commands) or key in self.clashes
        if shared and self._db.get(id_key) != key:
            self.clashes.discard(key)
            return
        batch.delete(id_key)

    def replay(self, key: bytes, entry: Entry) -> None:
        """Hear of a row in the changelog: it takes its id from an earlier one, unless it is replaced itself."""
        if entry.url is not None:
            return
        id_key = keys.ID + entry.id.encode()
        other = self._at(id_key)
        if not entry.replaced:
            if other is not None and other != key:
                self.clashes.add(other)
            self._replayed[id_key] = key
        elif other == key:
            self._replayed[id_key] = None

    def replay_removal(self, key: bytes, entry: Entry) -> None:
        """Hear that the changelog has removed a row."""
        self.clashes.discard(key)
        id_key = keys.ID + entry.id.encode()
        if entry.url is None and self._at(id_key) == key:
            self._replayed[id_key] = None

    def _at(self, id_key: bytes) -> bytes | None:
        return self._replayed[id_key] if id_key in self._replayed else self._db.get(id_key)

    def write_replayed(self, batch: rocksdict.WriteBatch) -> None:
        """Put what has been replayed into the batch."""
        replayed, self._replayed = self._replayed, {}
        for id_key, row in replayed.items():
            if row is None:
                batch.delete(id_key)
            else:
                batch.put(id_key, row)
