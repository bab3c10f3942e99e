"""A row's value: the pending message, and its versioned codec."""

import msgspec

from tables import keys
from tables.bound import Bound
from tables.commands import UNKNOWN_MS, Command, RecordStamp
from tables.errors import UnknownRowVersion

#: The newest version of a row; all earlier versions can be read. Version 2 added stamps, 3 bounds and next tries,
#: 4 series.
VERSION = 4
#: The first version that has series.
RECURRING = 4
_PREFIXES = {version: bytes([version]) for version in range(1, VERSION + 1)}
#: The number of fields that an entry and a command have in earlier versions.
_FIELDS = {1: (15, 5), 2: (18, 7), 3: (20, 7)}

Headers = list[tuple[str, bytes | None]]


class Series(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A recurring message; the next occurrence is in the row.

    `rule` is the recurrence rule, as encoded by the reader of requests. `number` counts occurrences from 1.
    `planned_ms` (epoch ms) is the planned time of the pending occurrence; the next occurrence is planned after it.
    """

    rule: bytes
    planned_ms: int
    number: int = 1


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One pending message: what to deliver, where, and under which policies.

    `source` is `topic-partition-offset` of the request; times are epoch milliseconds, durations milliseconds. `to` is a
    topic, or a URL to post to. `url` is set instead of `to` for a failure callback that waits for its next try.
    `stamp_ms` is when it was requested, by the record `asked_by` if it is not the source; `moved` stamps the record
    that set its due time, if it is another. `bound` limits how late it may become due. A delivery that has failed
    `attempts` times waits until `next_try_ms`. With `series` it is the next occurrence of a recurring message.
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
        """Whether a later request has taken over its id."""
        return bool(self.commands) and any(command.op == "replace" for command in self.commands)

    @property
    def asked(self) -> RecordStamp:
        """The stamp of the record that set its content."""
        return RecordStamp(self.stamp_ms, self.asked_by or self.source)

    @property
    def timed(self) -> RecordStamp:
        """The stamp of the record that set its due time."""
        return self.moved or self.asked

    # maximum delay ---------------------------------------------------------------------------------------------------
    @property
    def no_later_ms(self) -> int | None:
        """The maximum delay after the first request of its id, in milliseconds; None means no limit."""
        return None if self.bound is None else self.bound.within_ms

    @property
    def own_bound(self) -> Bound:
        """Its bound, or a bound with only its own stamp if it has none."""
        return self.bound or Bound(self.stamp_ms)

    def asked_due(self, row: bytes) -> int:
        """Return the requested due time (epoch ms) of the message at key `row`; its bound may make it due earlier."""
        bound = self.bound
        return keys.due_of(row) if bound is None or bound.asked_ms is None else bound.asked_ms

    def within(self, asked_ms: int) -> tuple[int, "Entry"]:
        """Return the due time (epoch ms) for a requested time, limited by the bound, and the entry that keeps both."""
        bound = self.bound
        if bound is None:
            return asked_ms, self
        latest_ms = bound.latest_ms
        due_ms = asked_ms if latest_ms is None else min(asked_ms, latest_ms)
        kept_ms = asked_ms if due_ms < asked_ms else None
        if kept_ms == bound.asked_ms:
            return due_ms, self
        return due_ms, msgspec.structs.replace(self, bound=msgspec.structs.replace(bound, asked_ms=kept_ms))


#: msgpack's nil, and the first bytes of numbers with one, two, four and eight bytes.
_NIL, _UINT8, _UINT16, _UINT32, _UINT64 = 0xC0, 0xCC, 0xCD, 0xCE, 0xCF

_encode, _NEWEST = msgspec.msgpack.Encoder().encode, _PREFIXES[VERSION]
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry, version: int = VERSION) -> bytes:
    """Return an entry as version byte and msgpack array, without the fields that an older `version` does not have."""
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
    """Return the same bytes as encode() for an entry whose other fields have defaults, in under half the CPU time."""
    return _NEWEST + _encode((
        id_, to, key, value, headers, source, None, None, None, None, None, None, 0, (), None, stamp_ms,
        None, None, None, None, None,
    ))  # fmt: skip


def emptied(entry: Entry) -> Entry:
    """Return an entry without key, value and headers: a replaced message is not sent again, only named."""
    return msgspec.structs.replace(entry, key=None, value=None, headers=[])


def may_recur(raw: bytes) -> bool:
    """Return whether the entry in a row's value may have a series. False is certain; a wrong True is rare.

    The series is the last field, and ends with its number; an entry without series ends with msgpack's nil. The last
    byte of a number can be the same as nil, so the byte that begins the number is checked too.
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
