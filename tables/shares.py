"""Usage per namespace, and destinations per sender, updated with every step without a scan."""

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
from tables.holdings import Holdings

log = logging.getLogger(__name__)

_META = keys.META + b"shares"
#: Part of the mark: shares that were counted without destinations or remembered ids are counted again.
_LAYOUT = "destinations remembered"
#: Rows that are counted at a time where no other task has to run.
_CHUNK = 10_000


class NamespaceRule(NamedTuple):
    """A function that returns the namespace of an id, or "" for none.

    `mark` identifies the function: if it changes, all rows are counted again. Without namespaces, `inputs` maps the
    checksums in row keys to input topics.
    """

    of_id: Callable[[str], str]
    mark: str
    inputs: Mapping[int, str] | None = None


class NamespaceShare(msgspec.Struct, array_like=True, frozen=True):
    """A namespace's part of a partition: messages, and the bytes of their keys, values and headers.

    `remembered` counts ids: of commands that wait for their message, of messages that have ended, and of messages that
    the cold tier has.
    """

    messages: int = 0
    bytes: int = 0
    remembered: int = 0


_NONE = NamespaceShare()
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(NamespaceShare).decode


def size_of(entry: Entry) -> int:
    """Return the bytes of a message's key, value and headers."""
    own = sum(len(name) + len(value or b"") for name, value in entry.headers)
    return len(entry.key or b"") + len(entry.value or b"") + own


class Shares:
    """The shares of a partition; kept in memory and written with the step that changes them.

    They are valid if they were written with the last step: a worker without shares leaves old ones in the database. In
    that case all rows are counted again before the first use.
    """

    def __init__(self, db: Database, namespace_rule: NamespaceRule, offset: int) -> None:
        """Read the shares that the database holds; unless its last step wrote them, `count` counts all rows again."""
        self._db, self._of_id = db, namespace_rule.of_id
        self._mark = zlib.crc32(f"{_LAYOUT} {namespace_rule.mark}".encode())
        self._known: dict[str, NamespaceShare] = {}
        self._inputs, self._holdings = namespace_rule.inputs, Holdings()
        #: The first row that still has to be counted, or None.
        self._from: bytes | None = None
        self._added: dict[str, list[int]] = {}
        begin, end = keys.span(keys.SHARE)  # the key that is only the kind is the seal of the changelog
        stored = {key[1:].decode(): value for key, value in db.items(begin + b"\0", end)}
        #: Names whose shares in the database are out of date.
        self._stale = set[str]()
        if db.get(_META) == self._meta(offset):
            self._holdings.read(stored)
            self._known = {name: _decode(value) for name, value in stored.items() if "\0" not in name}
        else:
            self._from, self._stale = b"\x00", set(stored)

    @property
    def known(self) -> Mapping[str, NamespaceShare]:
        """The share of each namespace that has pending messages or remembered ids."""
        self._count_all()
        return self._known

    @property
    def destinations(self) -> Mapping[str, Mapping[str, int]]:
        """The number of pending messages for each destination, by sender: a namespace, or else an input topic."""
        self._count_all()
        return self._holdings.known

    def count(self, limit: int) -> bool:
        """Count the next `limit` rows, if needed; return whether there are more. Do not write between two calls."""
        if self._from is None:
            return False
        rows = list(itertools.islice(self._db.items(self._from, keys.ROWS_END), limit))
        for key, raw in rows:
            self._count(key, decode(raw), 1)
        if len(rows) == limit:
            self._from = rows[-1][0] + b"\x00"
            return True
        self._from = None
        self._count_marks()
        self._settle()
        self._holdings.settle()
        self._stale |= set(self._known).union(self._holdings.names())
        if self._known:
            log.info("%s: counted the pending messages per namespace again", self._db.path.name)
        return False

    def _count_marks(self) -> None:
        """Count the remembered ids, if there are namespaces."""
        if self._inputs is None:
            for kind in (keys.COMMANDS, keys.DELIVERED, keys.COLD):
                for key in self._db.keys(*keys.span(kind)):
                    self._remember(key[1:].decode(), 1)

    def apply(self, changes: Changes) -> None:
        """Count the rows that a step removes and adds, at the next write."""
        for key, entry in changes.removals.items():
            self.add(key, entry, -1)
        for key, entry in changes.emptied.items():
            self.add(key, entry, -1)
            self.add(key, emptied(entry), 1)
        for key in changes.fresh:
            self.add(key, changes.puts[key][0], 1)
        self._add_plain(changes.gone, -1)
        self._add_plain(changes.plain, 1)

    def _add_plain(self, rows: Mapping[bytes, bytes | Entry], number: int) -> None:
        if self._inputs is None:
            for key, row in rows.items():
                self.add(key, entry_of(row), number)
        elif rows:
            self._count_all()
            self._holdings.add_rows(rows, self._inputs, number)

    def add(self, key: bytes, entry: Entry, number: int) -> None:
        """Count `number` more (or fewer) rows with this key and content, at the next write."""
        if self._from is not None:
            self._count_all()
        self._count(key, entry, number)

    def remember(self, id_: str, number: int) -> None:
        """Count `number` more (or fewer) remembered ids, at the next write."""
        if self._inputs is None:
            if self._from is not None:
                self._count_all()
            self._remember(id_, number)

    def _remember(self, id_: str, number: int) -> None:
        name = self._of_id(id_)
        if name:
            self._added.setdefault(name, [0, 0, 0])[2] += number

    def _count_all(self) -> None:
        while self.count(_CHUNK):
            pass

    def _count(self, key: bytes, entry: Entry, number: int) -> None:
        name = self._of_id(entry.id)
        sender = name if self._inputs is None else self._inputs.get(keys.suffix_of(key)[1], "")
        self._holdings.add(sender, entry.to, number)
        if name:
            added = self._added.setdefault(name, [0, 0, 0])
            added[0] += number
            added[1] += number * size_of(entry)

    def write(self, batch: rocksdict.WriteBatch, offset: int) -> None:
        """Put the shares that changed since the last write into the batch of the step that ends at `offset`."""
        self._count_all()
        for name in self._settle() | self._holdings.settle() | self._stale:
            share, number = self._known.get(name), self._holdings.number(name)
            if share is not None:
                batch.put(keys.SHARE + name.encode(), _encode(share))
            elif number:
                batch.put(keys.SHARE + name.encode(), keys.long_bytes(number))
            else:
                batch.delete(keys.SHARE + name.encode())
        self._stale = set()
        batch.put(_META, self._meta(offset))

    def _settle(self) -> set[str]:
        """Add up the changes; return the names of the namespaces whose shares have changed."""
        for name, (messages, size, remembered) in self._added.items():
            before = self._known.get(name, _NONE)
            share = NamespaceShare(before.messages + messages, before.bytes + size, before.remembered + remembered)
            if share.messages or share.remembered:
                self._known[name] = share
            else:
                self._known.pop(name, None)
        changed = set(self._added)
        self._added.clear()
        return changed

    def _meta(self, offset: int) -> bytes:
        return keys.long_bytes(self._mark) + keys.long_bytes(offset)
