"""The changes of one step to a partition: rows, positions, remembered ids. They become one changelog record batch."""

import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter

import msgspec

from tables import keys
from tables.commands import UNKNOWN_MS, RememberedCommands
from tables.entry import Entry, decode

#: Keys and values, of rows or of records.
Pairs = Sequence[tuple[bytes, bytes]]
#: Keys of plain rows, and the rows: undecoded for the native extension, entries for Python.
PlainRows = Sequence[tuple[bytes, bytes | Entry]]

_second = itemgetter(1)


class Position(msgspec.Struct, array_like=True, frozen=True):
    """How far a source topic has been ingested: the next offset, and the last record's timestamp and CRC-32.

    The last record identifies the log: a different record at its offset means that the topic was deleted and created
    again. If that was accepted, `base` is added to every offset in a record's name, so that names stay unique.
    `stamp_ms` is the largest timestamp so far: a new leader's clock may be behind. `log` is the topic's id, or "" if it
    is not known.
    """

    offset: int
    timestamp_ms: int
    crc: int
    base: int = 0
    stamp_ms: int = UNKNOWN_MS
    log: str = ""


class RememberedDelivery(msgspec.Struct, array_like=True, frozen=True):
    """A delivery that is remembered: the same id with the same due time is a duplicate until `expires_ms`."""

    due_ms: int
    expires_ms: int


class ColdMark(msgspec.Struct, array_like=True, frozen=True):
    """The last report of the cold tier about an id: its record `source`, remembered until `expires_ms`.

    `kept` says that this worker has the id's message, if there is one; otherwise the cold tier may have it.
    """

    source: str
    expires_ms: int
    kept: bool


_encode = msgspec.msgpack.encode
position_bytes = delivered_bytes = cold_mark_bytes = _encode
decode_position = msgspec.msgpack.Decoder(Position).decode
decode_delivered = msgspec.msgpack.Decoder(RememberedDelivery).decode
decode_cold_mark = msgspec.msgpack.Decoder(ColdMark).decode


class Changes:
    """The changes of one step, gathered in order and applied whole or not at all.

    Removals come before puts in the changelog batch, so that a message that moves to another key is never there twice.
    """

    __slots__ = (
        "cold_marks",
        "commands",
        "delivered",
        "emptied",
        "fresh",
        "gone",
        "origins",
        "plain",
        "positions",
        "puts",
        "removals",
        "size",
    )

    def __init__(self) -> None:
        """Begin with no change."""
        self.puts: dict[bytes, tuple[Entry, bytes]] = {}
        self.fresh: set[bytes] = set()
        #: The former entries of rows whose content was removed, and which keep only their names.
        self.emptied: dict[bytes, Entry] = {}
        self.removals: dict[bytes, Entry] = {}
        #: Plain rows that are added (undecoded) and removed (as the caller passed them): both are processed in bulk.
        self.plain: dict[bytes, bytes] = {}
        self.gone: dict[bytes, bytes | Entry] = {}
        self.positions: dict[str, Position] = {}
        self.origins: dict[bytes, int] = {}
        self.commands: dict[str, RememberedCommands | None] = {}
        self.delivered: dict[str, RememberedDelivery | None] = {}
        self.cold_marks: dict[str, ColdMark | None] = {}
        self.size = 0

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        rest = self.positions or self.origins or self.commands or self.delivered or self.cold_marks
        return bool(self.puts or self.removals or self.plain or self.gone or rest)

    def touches(self, key: bytes) -> bool:
        """Return whether the row at `key` is removed or rewritten."""
        return self.removes(key) or key in self.puts or key in self.plain

    def removes(self, key: bytes) -> bool:
        """Return whether the row at `key` is removed."""
        return key in self.removals or key in self.gone

    def adds(self, key: bytes) -> bool:
        """Return whether the row at `key` is new."""
        return key in self.fresh or key in self.plain

    @property
    def removed(self) -> Iterator[bytes]:
        """The keys of all rows that are removed."""
        return itertools.chain(self.removals, self.gone)

    @property
    def added(self) -> Iterator[bytes]:
        """The keys of all rows that are new."""
        return itertools.chain(self.fresh, self.plain)

    def entry(self, key: bytes) -> Entry | None:
        """Return the entry that this step puts at `key`, or None."""
        put = self.puts.get(key)
        if put is not None:
            return put[0]
        raw = self.plain.get(key)
        return None if raw is None else decode(raw)

    def put(self, key: bytes, entry: Entry, raw: bytes) -> None:
        """Add a row at a new `key`."""
        self.puts[key] = (entry, raw)
        self.fresh.add(key)
        self.size += len(raw) + 32

    def put_plain(self, keys: Sequence[bytes], raws: Sequence[bytes], size: int) -> None:
        """Add new rows that were never decoded; `size` is their bytes, with 32 more for each row than its value has."""
        self.plain.update(zip(keys, raws, strict=True))
        self.size += size

    def remove_plain(self, keys: Sequence[bytes], rows: Sequence[bytes | Entry]) -> None:
        """Remove rows that no step has touched since they were written."""
        self.gone.update(zip(keys, rows, strict=True))
        self.size += 32 * len(keys)

    def rewrite(self, key: bytes, entry: Entry, raw: bytes) -> None:
        """Replace the value of the row at `key`."""
        if self.plain.pop(key, None) is not None:
            self.fresh.add(key)
        self.puts[key] = (entry, raw)
        self.size += len(raw) + 32

    def empty(self, key: bytes, was: Entry, entry: Entry, raw: bytes) -> None:
        """Remove key, value and headers from the row at `key`, which another message has replaced while it is sent."""
        if key not in self.fresh:
            self.emptied[key] = was
        self.rewrite(key, entry, raw)

    def remove(self, key: bytes, entry: Entry) -> None:
        """Remove the row at `key`; if this step added it, the changelog gets no record of the row at all."""
        self.puts.pop(key, None)
        if self.plain.pop(key, None) is not None:
            return
        if key in self.fresh:
            self.fresh.discard(key)
            return
        self.removals[key] = entry
        self.size += 32

    def records(self, writer: int) -> Iterator[tuple[bytes, bytes | None]]:
        """Return the changelog records. The first one is the epoch of the `writer`, which identifies the batch."""
        return itertools.chain(
            [(keys.WRITER, keys.long_bytes(writer))],
            zip(self.removed, itertools.repeat(None)),
            zip(self.puts, map(_second, self.puts.values()), strict=True),
            self.plain.items(),
            self._marks(),
        )

    def _marks(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Return the records that are not rows."""
        for id_, commands in self.commands.items():
            yield keys.COMMANDS + id_.encode(), None if commands is None else _encode(commands)
        for id_, delivered in self.delivered.items():
            yield keys.DELIVERED + id_.encode(), None if delivered is None else _encode(delivered)
        for id_, mark in self.cold_marks.items():
            yield keys.COLD + id_.encode(), None if mark is None else _encode(mark)
        for key, offset in self.origins.items():
            yield key, keys.long_bytes(offset)
        for topic, position in self.positions.items():
            yield keys.POSITION + topic.encode(), _encode(position)
