"""A row's value: the message that waits, and its versioned codec."""

import msgspec

from tables import keys
from tables.bound import Bound
from tables.commands import UNKNOWN_MS, Command, RecordStamp
from tables.errors import UnknownRowVersion

#: The newest version of a row, which is read like all before it. 2: stamps. 3: bounds, and next tries.
#: 4: series.
VERSION = 4
#: The first version that knows series.
RECURRING = 4
_PREFIXES = {version: bytes([version]) for version in range(1, VERSION + 1)}
#: Fields of an entry and of a command that the versions before have.
_FIELDS = {1: (15, 5), 2: (18, 7), 3: (20, 7)}

Headers = list[tuple[str, bytes | None]]


class Series(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A series whose next occurrence waits in a row.

    `rule` says when it goes on, as whoever reads requests has encoded it. `number` counts occurrences from 1;
    `planned_ms` (epoch ms) is when the one that waits was to be by the rule: the next one is planned after that.
    """

    rule: bytes
    planned_ms: int
    number: int = 1


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One pending message: what to deliver, where, and under which policies.

    `source` is `topic-partition-offset` of the request; times are epoch milliseconds, durations milliseconds. `to` is a
    topic, or a URL to post to.
    `url` is set instead of `to` for a failure callback that waits for its next try. `stamp_ms` says when it was asked
    for, by the record `asked_by` if that is another than the source; `moved` when its due time was, if by another.
    `bound` says how late it may become due, and `next_try_ms` until when a delivery waits that has failed `attempts`
    times. With `series` it is the next occurrence of a recurring message.
    """

    id: str
    to: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    source: str
    partition: int | None = None
    cluster: str | None = None
    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None
    on_failure: str | None = None
    attempts: int = 0
    commands: tuple[Command, ...] = ()
    url: str | None = None
    stamp_ms: int = UNKNOWN_MS
    asked_by: str | None = None
    moved: RecordStamp | None = None
    bound: Bound | None = None
    next_try_ms: int | None = None
    series: Series | None = None

    @property
    def replaced(self) -> bool:
        """Whether a later request of the same id has taken its place: its id is no longer its own."""
        return bool(self.commands) and any(command.op == "replace" for command in self.commands)

    @property
    def asked(self) -> RecordStamp:
        """When its content was asked for."""
        return RecordStamp(self.stamp_ms, self.asked_by or self.source)

    @property
    def timed(self) -> RecordStamp:
        """When its due time was asked for."""
        return self.moved or self.asked

    # how late it may become due --------------------------------------------------------------------------------------
    @property
    def no_later_ms(self) -> int | None:
        """How long after the first request of its id it is due at the latest; None is ever so late."""
        return None if self.bound is None else self.bound.within_ms

    @property
    def own_bound(self) -> Bound:
        """Its bound; the one of its request alone, if it has replaced none and asked for none."""
        return self.bound or Bound(self.stamp_ms)

    def asked_due(self, row: bytes) -> int:
        """Return the due time (epoch ms) that was asked for, of the message in a row: its bound may be earlier."""
        bound = self.bound
        return keys.due_of(row) if bound is None or bound.asked_ms is None else bound.asked_ms

    def within(self, asked_ms: int) -> tuple[int, "Entry"]:
        """Return when it is due (epoch ms) that is asked for then, and the entry that knows what was asked for."""
        bound = self.bound
        if bound is None:
            return asked_ms, self
        latest_ms = bound.latest_ms
        due_ms = asked_ms if latest_ms is None else min(asked_ms, latest_ms)
        kept_ms = asked_ms if due_ms < asked_ms else None
        if kept_ms == bound.asked_ms:
            return due_ms, self
        return due_ms, msgspec.structs.replace(self, bound=msgspec.structs.replace(bound, asked_ms=kept_ms))


#: msgpack's nil, and what numbers begin with that have one, two, four or eight bytes.
_NIL, _UINT8, _UINT16, _UINT32, _UINT64 = 0xC0, 0xCC, 0xCD, 0xCE, 0xCF

_encode, _NEWEST = msgspec.msgpack.Encoder().encode, _PREFIXES[VERSION]
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry, version: int = VERSION) -> bytes:
    """Return an entry as version byte and msgpack array; what an older `version` has no field for is left out."""
    if version == VERSION:
        return _NEWEST + _encode(entry)
    count, of_command = _FIELDS[version]
    fields = list(msgspec.structs.astuple(entry)[:count])
    commands = (msgspec.structs.astuple(command) for command in entry.commands)
    fields[13] = [command[:of_command] for command in commands]
    return _PREFIXES[version] + _encode(fields)


def encode_plain(
    id_: str, to: str, key: bytes | None, value: bytes | None, headers: Headers, source: str, stamp_ms: int
) -> bytes:
    """Return encode() of an entry whose other fields have their defaults, for less than half of its CPU time."""
    return _NEWEST + _encode((
        id_, to, key, value, headers, source, None, None, None, None, None, None, 0, (), None, stamp_ms,
        None, None, None, None, None,
    ))  # fmt: skip


def emptied(entry: Entry) -> Entry:
    """Return an entry without its content: what has been replaced is not sent again, and is told of by name."""
    return msgspec.structs.replace(entry, key=None, value=None, headers=[])


def may_recur(raw: bytes) -> bool:
    """Whether the entry in a row's value may have a series: of those that have none hardly any, at no cost.

    The series is the last field, and ends with its number; an entry without one ends with msgpack's nil. A number may
    end with the same byte behind its own first one.
    """
    if raw[0] < RECURRING:
        return False
    return raw[-1] != _NIL or raw[-2] == _UINT8 or raw[-3] == _UINT16 or raw[-5] == _UINT32 or raw[-9] == _UINT64


def decode(raw: bytes) -> Entry:
    """Return the entry in a row's value.

    Raises UnknownRowVersion for a row of a newer version.
    """
    if raw[0] not in _PREFIXES:
        raise UnknownRowVersion(raw[0], VERSION)
    return _decoder.decode(raw[1:])


def entry_of(row: bytes | Entry) -> Entry:
    """Return the entry of a row that may be decoded already. Raises UnknownRowVersion for a row of a newer version."""
    return decode(row) if isinstance(row, bytes) else row
