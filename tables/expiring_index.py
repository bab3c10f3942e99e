"""Ids that are remembered for a while: for orders that come late, as delivered, or as known to the cold tier.

Each kind has an index by the time it ends, so that forgetting needs no scan.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
import rocksdict

from tables import keys
from tables.database import Database

#: 128 KiB of a partition's memory, and one in twenty is looked up in vain with 50,000 ids.
_BITS = 1 << 20


class Mark(Protocol):
    """What is remembered of an id, until `expires_ms`."""

    @property
    def expires_ms(self) -> int:
        """When it is forgotten, in epoch milliseconds."""
        ...


M = TypeVar("M", bound=Mark)


class ExpiringIndex(Generic[M]):
    """The marks of one kind in one partition's database; written with the step that changes them."""

    def __init__(self, db: Database, kind: bytes, decode: Callable[[bytes], M]) -> None:
        """Read how many there are."""
        self._db, self._kind, self._decode = db, kind, decode
        self._counter = keys.META + b"count" + kind
        self.count = db.number(self._counter)
        #: A bit for the hash of each id that was remembered since there was none: most that are asked for were not,
        #: and a look into the database takes ten times as long.
        self._seen = bytearray()
        #: No mark ends before this key: looks begin here, past the tombstones of what was forgotten, of which there may
        #: be millions; a look from the beginning at each step would take longer than all the rest of it.
        self._low = b""
        if self.count:
            for key in db.keys(*keys.span(kind)):
                self._see(key[len(kind) :].decode())

    def _see(self, id_: str) -> None:
        if not self._seen:
            self._seen = bytearray(_BITS >> 3)
        bit = hash(id_) % _BITS
        self._seen[bit >> 3] |= 1 << (bit & 7)

    def may_have(self, id_: str) -> bool:
        """Return whether an id may be remembered; False is certain, and takes no look into the database."""
        if not self.count:
            return False
        bit = hash(id_) % _BITS
        return bool(self._seen[bit >> 3] >> (bit & 7) & 1)

    def may_have_any(self, ids: Iterable[str]) -> bool:
        """Return whether any of these ids may be remembered, as may_have() of each."""
        seen, bits = self._seen, _BITS
        return bool(self.count) and any(seen[(bit := hash(id_) % bits) >> 3] >> (bit & 7) & 1 for id_ in ids)

    def get(self, id_: str) -> M | None:
        """Return an id's mark, or None."""
        if not self.may_have(id_):
            return None
        raw = self._db.get(self._kind + id_.encode())
        return None if raw is None else self._decode(raw)

    def get_many(self, ids: Sequence[str]) -> list[M | None]:
        """Return the marks of ids, None where there is none, in one read."""
        if not self.count:
            return [None] * len(ids)
        found = self._db.get_many([self._kind + id_.encode() for id_ in ids])
        return [None if raw is None else self._decode(raw) for raw in found]

    def write(self, batch: rocksdict.WriteBatch, marks: Mapping[str, M | None]) -> None:
        """Remember ids, or forget those without a mark, when the batch is written."""
        if marks:
            for (id_, mark), before in zip(marks.items(), self.get_many([*marks]), strict=True):
                self._put(batch, id_, mark, before)

    def _put(self, batch: rocksdict.WriteBatch, id_: str, mark: M | None, before: M | None) -> None:
        id_bytes = id_.encode()
        if before is not None:
            batch.delete(keys.expiry_key(self._kind, before.expires_ms, id_bytes))
            self.count -= 1
        if mark is None:
            batch.delete(self._kind + id_bytes)
        else:
            batch.put(self._kind + id_bytes, msgspec.msgpack.encode(mark))
            ends = keys.expiry_key(self._kind, mark.expires_ms, id_bytes)
            batch.put(ends, b"")
            self._low = min(self._low, ends)
            self.count += 1
            self._see(id_)
        if not self.count:
            self._seen = bytearray()
        batch.put(self._counter, keys.long_bytes(self.count))

    def replay(self, batch: rocksdict.WriteBatch, key: bytes, value: bytes | None) -> None:
        """Apply a changelog record of this kind. An id may be in a batch once."""
        id_ = key[1:].decode()
        self._put(batch, id_, None if value is None else self._decode(value), self.get(id_))

    def expired(self, now_ms: int, limit: int) -> list[str]:
        """Return up to `limit` ids that are to be forgotten at `now_ms`."""
        if not self.count:
            return []
        begin, end = keys.expiry_key(self._kind, 0, b""), keys.expiry_key(self._kind, now_ms + 1, b"")
        there = list(itertools.islice(self._db.keys(max(begin, self._low), end), limit))
        self._low = max(self._low, there[0] if there else end)
        return [key[len(begin) :].decode() for key in there]
