"""What waits per namespace: messages and bytes, maintained with every step, never scanned for."""

import itertools
import logging
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import rocksdict

from tables import keys
from tables.changes import Changes
from tables.database import Database
from tables.entry import Entry, decode, emptied, entry_of

log = logging.getLogger(__name__)

_META = keys.META + b"shares"
#: Rows that are looked at in one go where nobody waits.
_CHUNK = 10_000


class Whose(NamedTuple):
    """Tells of an id which namespace it belongs to, "" for none.

    `mark` is another one where another answer is possible: what was counted by another is counted anew.
    """

    of_id: Callable[[str], str]
    mark: str


class Share(msgspec.Struct, array_like=True, frozen=True):
    """How much of a partition is one namespace's: messages, and the bytes of their keys, values and headers."""

    messages: int = 0
    bytes: int = 0


_NONE = Share()
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Share).decode


def size_of(entry: Entry) -> int:
    """Return the bytes of a message that count: those that its sender has chosen."""
    own = sum(len(name) + len(value or b"") for name, value in entry.headers)
    return len(entry.key or b"") + len(entry.value or b"") + own


class Shares:
    """The shares of a partition; kept in memory and written with the step that changed them.

    They count if they were written with the last step: whoever works without them in between leaves them behind. Then
    all rows are counted anew, before anything else is done with them.
    """

    def __init__(self, db: Database, whose: Whose, offset: int) -> None:
        """Read the shares that the database holds; if they are not those of its last step, `count` has work to do."""
        self._db, self._of_id, self._mark = db, whose.of_id, zlib.crc32(whose.mark.encode())
        self._known: dict[str, Share] = {}
        #: From where on rows are still to be counted.
        self._from: bytes | None = None
        self._added: dict[str, list[int]] = {}
        begin, end = keys.span(keys.SHARE)  # what is under the kind alone is the seal of the changelog
        stored = {key[1:].decode(): value for key, value in db.items(begin + b"\0", end)}
        #: Names whose shares in the database are others than those that are known.
        self._stale = set[str]()
        if db.get(_META) == self._meta(offset):
            self._known = {name: _decode(value) for name, value in stored.items()}
        else:
            self._from, self._stale = b"\x00", set(stored)

    @property
    def known(self) -> Mapping[str, Share]:
        """The share of each namespace of which anything waits."""
        self._count_all()
        return self._known

    def count(self, limit: int) -> bool:
        """Count so many rows, if they have to be; return whether there are more. Nothing may be written in between."""
        if self._from is None:
            return False
        rows = list(itertools.islice(self._db.items(self._from, keys.ROWS_END), limit))
        for _, raw in rows:
            self._count(decode(raw), 1)
        if len(rows) == limit:
            self._from = rows[-1][0] + b"\x00"
            return True
        self._from = None
        self._settle()
        self._stale |= set(self._known)
        if self._known:
            log.info("%s: counted anew what waits per namespace", self._db.path.name)
        return False

    def apply(self, changes: Changes) -> None:
        """Count what a step removes and adds, when written."""
        for entry in changes.removals.values():
            self.add(entry, -1)
        for row in changes.gone.values():
            self.add(entry_of(row), -1)
        for entry in changes.emptied.values():
            self.add(entry, -1)
            self.add(emptied(entry), 1)
        for key in changes.fresh:
            self.add(changes.puts[key][0], 1)
        for raw in changes.usual.values():
            self.add(decode(raw), 1)

    def add(self, entry: Entry, number: int) -> None:
        """Count so many more rows (or fewer) with this content, when written."""
        if self._from is not None:
            self._count_all()
        self._count(entry, number)

    def _count_all(self) -> None:
        while self.count(_CHUNK):
            pass

    def _count(self, entry: Entry, number: int) -> None:
        name = self._of_id(entry.id)
        if name:
            added = self._added.setdefault(name, [0, 0])
            added[0] += number
            added[1] += number * size_of(entry)

    def write(self, batch: rocksdict.WriteBatch, offset: int) -> None:
        """Count what was added since the last write, and put it into the batch of the step that ends at `offset`."""
        self._count_all()
        for name in self._settle() | self._stale:
            share = self._known.get(name)
            if share is None:
                batch.delete(keys.SHARE + name.encode())
            else:
                batch.put(keys.SHARE + name.encode(), _encode(share))
        self._stale = set()
        batch.put(_META, self._meta(offset))

    def _settle(self) -> set[str]:
        """Add up; return whose shares have changed."""
        for name, (messages, size) in self._added.items():
            before = self._known.get(name, _NONE)
            share = Share(before.messages + messages, before.bytes + size)
            if share.messages:
                self._known[name] = share
            else:
                self._known.pop(name, None)
        changed = set(self._added)
        self._added.clear()
        return changed

    def _meta(self, offset: int) -> bytes:
        return keys.long_bytes(self._mark) + keys.long_bytes(offset)
