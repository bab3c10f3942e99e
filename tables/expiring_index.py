"""Ids that are remembered for a while: for records that come late, as delivered, or as known to the cold tier.

Each kind has an index by expiry time, so that forgetting needs no scan.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
import rocksdict

from tables import keys
from tables.database import Database

#: This takes half a MiB of a partition's memory while it has marks. With 50,000 ids, one lookup in ten is in vain.
_PLACES = 1 << 19
#: A place that has reached this count stays at it, and always means that there may be an id.
_MANY = 255


class Mark(Protocol):
    """A mark of an id, remembered until `expires_ms`."""

    @property
    def expires_ms(self) -> int:
        """When it is forgotten, in epoch milliseconds."""
        ...


M = TypeVar("M", bound=Mark)


class ExpiringIndex(Generic[M]):
    """The marks of one kind in one partition's database; written with the step that changes them."""

    def __init__(
        self,
        db: Database,
        kind: bytes,
        decode: Callable[[bytes], M],
        counted: Callable[[str, int], object] = lambda _id, _number: None,
    ) -> None:
        """Read the number of marks; each write calls `counted` with an id and the change of its number of marks."""
        self._db, self._kind, self._decode, self._counted = db, kind, decode, counted
        self._counter = keys.META + b"count" + kind
        self.count = db.number(self._counter)
        #: The number of remembered ids per hash. Most lookups are for unknown ids, and a read of the database takes ten
        #: times as long. Forgotten ids are subtracted again.
        self._places = bytearray()
        #: No mark expires before this key. Reads begin here, after the tombstones of forgotten marks: there may be
        #: millions, and reading through them at each step would take longer than the rest of the step.
        self._low = b""
        #: Marks before this key have been checked by `spent`, are still of use, and wait for their expiry.
        self._kept = b""
        #: Marks that were read because they are about to be forgotten, until the next write.
        self._looked: dict[str, M | None] = {}
        if self.count:
            for key in db.keys(*keys.span(kind)):
                self._see(key[len(kind) :].decode())

    def _see(self, id_: str) -> None:
        if not self._places:
            self._places = bytearray(_PLACES)
        place = hash(id_) % _PLACES
        if self._places[place] < _MANY:
            self._places[place] += 1

    def _unsee(self, id_: str) -> None:
        place = hash(id_) % _PLACES
        if self._places[place] < _MANY:
            self._places[place] -= 1

    def may_have(self, id_: str) -> bool:
        """Return whether an id may be remembered; False is certain, and takes no look into the database."""
        if not self.count:
            return False
        return self._places[hash(id_) % _PLACES] > 0

    def first_of(self, ids: Sequence[str]) -> int | None:
        """Return the position of the first remembered id in `ids`, or None."""
        if not self.count:
            return None
        places = self._places
        maybe = [place for place, id_ in enumerate(ids) if places[hash(id_) % _PLACES]]
        values = self.get_many([ids[place] for place in maybe]) if maybe else ()
        return next((place for place, mark in zip(maybe, values, strict=True) if mark is not None), None)

    def get(self, id_: str) -> M | None:
        """Return an id's mark, or None."""
        if not self.may_have(id_):
            return None
        raw = self._db.get(self._kind + id_.encode())
        return None if raw is None else self._decode(raw)

    def get_many(self, ids: Sequence[str]) -> list[M | None]:
        """Return the mark or None for each id, with one read for all ids that may be there."""
        if not self.count:
            return [None] * len(ids)
        places, decode = self._places, self._decode
        maybe = [self._kind + id_.encode() for id_ in ids if places[hash(id_) % _PLACES]]
        if len(maybe) == len(ids):
            return [None if raw is None else decode(raw) for raw in self._db.get_many(maybe)]
        values = iter(self._db.get_many(maybe) if maybe else ())
        raws = [next(values) if places[hash(id_) % _PLACES] else None for id_ in ids]
        return [None if raw is None else decode(raw) for raw in raws]

    def write(self, batch: rocksdict.WriteBatch, marks: Mapping[str, M | None]) -> None:
        """Remember ids, or forget those with None as their mark, when the batch is written."""
        looked, self._looked = self._looked, {}
        others = [id_ for id_ in marks if id_ not in looked]
        looked.update(zip(others, self.get_many(others), strict=True))
        for id_, mark in marks.items():
            self._put(batch, id_, mark, looked[id_])
        self._end(batch)

    def _end(self, batch: rocksdict.WriteBatch) -> None:
        if not self.count:
            self._places = bytearray()
        batch.put(self._counter, keys.long_bytes(self.count))

    def _put(self, batch: rocksdict.WriteBatch, id_: str, mark: M | None, before: M | None) -> None:
        id_bytes = id_.encode()
        if (before is None) != (mark is None):
            self._counted(id_, 1 if before is None else -1)
        if before is not None:
            batch.delete(keys.expiry_key(self._kind, before.expires_ms, id_bytes))
            self.count -= 1
            self._unsee(id_)
        if mark is None:
            batch.delete(self._kind + id_bytes)
        else:
            batch.put(self._kind + id_bytes, msgspec.msgpack.encode(mark))
            ends = keys.expiry_key(self._kind, mark.expires_ms, id_bytes)
            batch.put(ends, b"")
            self._low = min(self._low, ends)
            self._kept = min(self._kept, ends)
            self.count += 1
            self._see(id_)

    def replay(self, batch: rocksdict.WriteBatch, key: bytes, value: bytes | None) -> None:
        """Apply a changelog record of this kind. A batch may contain an id at most once."""
        id_, self._looked = key[1:].decode(), {}
        self._put(batch, id_, None if value is None else self._decode(value), self.get(id_))
        self._end(batch)

    def expired(self, now_ms: int, limit: int) -> list[str]:
        """Return up to `limit` ids that have expired at `now_ms`."""
        if not self.count:
            return []
        begin, end = keys.expiry_key(self._kind, 0, b""), keys.expiry_key(self._kind, now_ms + 1, b"")
        there = list(itertools.islice(self._db.keys(max(begin, self._low), end), limit))
        self._low = max(self._low, there[0] if there else end)
        return [key[len(begin) :].decode() for key in there]

    def spent(self, end_ms: int, limit: int, is_spent: Callable[[M], bool]) -> list[str]:
        """Check up to `limit` ids that expire before `end_ms`; return those whose marks are of no use any more.

        A mark that is still of use is not checked again, and waits for its expiry.
        """
        if not self.count:
            return []
        begin, end = keys.expiry_key(self._kind, 0, b""), keys.expiry_key(self._kind, end_ms, b"")
        there = list(itertools.islice(self._db.keys(max(begin, self._kept), end), limit))
        ids = [key[len(begin) :].decode() for key in there]
        marks = self.get_many(ids) if ids else []
        spent = [place for place, mark in enumerate(marks) if mark is not None and is_spent(mark)]
        self._looked = {ids[place]: marks[place] for place in spent}
        if spent:
            self._kept = there[spent[0]]
        else:
            self._kept = there[-1] if len(there) == limit else max(self._kept, end)
        return [ids[place] for place in spent]
