"""What waits per namespace: messages and bytes, maintained with every step, never scanned for."""

import logging
import zlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import rocksdict

from tables import keys
from tables.changes import Changes
from tables.database import Database
from tables.entry import Entry, decode

log = logging.getLogger(__name__)

_META = keys.META + b"shares"


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

    They count if they were written with the last step: whoever works without them in between leaves them behind.
    """

    def __init__(self, db: Database, whose: Whose, offset: int) -> None:
        """Read the shares that the database holds, or count its rows if they are not those of its last step."""
        self._db, self._of_id, self._mark = db, whose.of_id, zlib.crc32(whose.mark.encode())
        #: Of each namespace of which anything waits.
        self.known: dict[str, Share] = {}
        self._added: dict[str, list[int]] = {}
        stored = {key[1:].decode(): value for key, value in db.items(*keys.span(keys.SHARE))}
        #: Names whose shares in the database are others than those that are known.
        self._stale = set[str]()
        if db.get(_META) == self._meta(offset):
            self.known = {name: _decode(value) for name, value in stored.items()}
            return
        for _, raw in db.items(b"\x00", keys.ROWS_END):
            self.add(decode(raw), 1)
        if self._added:
            log.info("%s: counted anew what waits per namespace", db.path.name)
        self._settle()
        self._stale = {*stored, *self.known}

    def apply(self, changes: Changes) -> None:
        """Count what a step removes and adds, when written."""
        for entry in changes.removals.values():
            self.add(entry, -1)
        for key in changes.fresh:
            self.add(changes.puts[key][0], 1)

    def add(self, entry: Entry, number: int) -> None:
        """Count so many more rows (or fewer) with this content, when written."""
        name = self._of_id(entry.id)
        if name:
            added = self._added.setdefault(name, [0, 0])
            added[0] += number
            added[1] += number * size_of(entry)

    def write(self, batch: rocksdict.WriteBatch, offset: int) -> None:
        """Count what was added since the last write, and put it into the batch of the step that ends at `offset`."""
        for name in self._settle() | self._stale:
            share = self.known.get(name)
            if share is None:
                batch.delete(keys.SHARE + name.encode())
            else:
                batch.put(keys.SHARE + name.encode(), _encode(share))
        self._stale = set()
        batch.put(_META, self._meta(offset))

    def _settle(self) -> set[str]:
        """Add up; return whose shares have changed."""
        for name, (messages, size) in self._added.items():
            before = self.known.get(name, _NONE)
            share = Share(before.messages + messages, before.bytes + size)
            if share.messages:
                self.known[name] = share
            else:
                self.known.pop(name, None)
        changed = set(self._added)
        self._added.clear()
        return changed

    def _meta(self, offset: int) -> bytes:
        return keys.long_bytes(self._mark) + keys.long_bytes(offset)
