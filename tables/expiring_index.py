"""Ids that are remembered for a while: for records that come late, as delivered, or as known to the cold tier.

Each kind has an index by the time it ends, so that forgetting needs no scan.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
import rocksdict

from tables import keys
from tables.database import Database

#: Half a MiB of a partition's memory while it remembers any: one id in ten is looked up in vain with 50,000 of them.
_PLACES = 1 << 19
#: A place that has counted so far counts no more: whatever goes, it says that there may be an id.
_MANY = 255


class Mark(Protocol):
    """What is remembered of an id, until `expires_ms`."""

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
        """Read how many there are; `counted` hears how many more (or fewer) there are of an id, with each write."""
        self._db, self._kind, self._decode, self._counted = db, kind, decode, counted
        self._counter = keys.META + b"count" + kind
        self.count = db.number(self._counter)
        #: How many ids are remembered by their hashes: most that are asked for are not, and a look into the database
        #: takes ten times as long. Counted, so that those that were forgotten leave no trace, however many they were.
        self._places = bytearray()
        #: No mark ends before this key: looks begin here, past the tombstones of what was forgotten, of which there may
        #: be millions; a look from the beginning at each step would take longer than all the rest of it.
        self._low = b""
        #: What is left before this key waits for its end: it was looked at, and may be of use until then.
        self._kept = b""
        #: What was found of those that are to be forgotten, until the next write.
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
        """Return the place of the first of these ids that is remembered, None if none is."""
        if not self.count:
            return None
        places = self._places
        maybe = [place for place, id_ in enumerate(ids) if places[hash(id_) % _PLACES]]
        found = self.get_many([ids[place] for place in maybe]) if maybe else ()
        return next((place for place, mark in zip(maybe, found, strict=True) if mark is not None), None)

    def get(self, id_: str) -> M | None:
        """Return an id's mark, or None."""
        if not self.may_have(id_):
            return None
        raw = self._db.get(self._kind + id_.encode())
        return None if raw is None else self._decode(raw)

    def get_many(self, ids: Sequence[str]) -> list[M | None]:
        """Return the marks of ids, None where there is none, in one read of those that may be there."""
        if not self.count:
            return [None] * len(ids)
        places, decode = self._places, self._decode
        maybe = [self._kind + id_.encode() for id_ in ids if places[hash(id_) % _PLACES]]
        if len(maybe) == len(ids):
            return [None if raw is None else decode(raw) for raw in self._db.get_many(maybe)]
        found = iter(self._db.get_many(maybe) if maybe else ())
        raws = [next(found) if places[hash(id_) % _PLACES] else None for id_ in ids]
        return [None if raw is None else decode(raw) for raw in raws]

    def write(self, batch: rocksdict.WriteBatch, marks: Mapping[str, M | None]) -> None:
        """Remember ids, or forget those without a mark, when the batch is written."""
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
        """Apply a changelog record of this kind. An id may be in a batch once."""
        id_, self._looked = key[1:].decode(), {}
        self._put(batch, id_, None if value is None else self._decode(value), self.get(id_))
        self._end(batch)

    def expired(self, now_ms: int, limit: int) -> list[str]:
        """Return up to `limit` ids that are to be forgotten at `now_ms`."""
        if not self.count:
            return []
        begin, end = keys.expiry_key(self._kind, 0, b""), keys.expiry_key(self._kind, now_ms + 1, b"")
        there = list(itertools.islice(self._db.keys(max(begin, self._low), end), limit))
        self._low = max(self._low, there[0] if there else end)
        return [key[len(begin) :].decode() for key in there]

    def spent(self, end_ms: int, limit: int, is_spent: Callable[[M], bool]) -> list[str]:
        """Return ids among up to `limit` that end before `end_ms` whose marks are of no use any more.

        One that is still of use is looked at once, and waits for its end.
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
