"""The native dialect: headers contain the request, key and value are delivered unchanged (records.md#requests)."""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from punctual.contract import headers as names
from punctual.contract import recurring, retry
from punctual.contract.jitter import spread
from punctual.contract.message import Message
from punctual.contract.plain_requests import decode_plain
from punctual.contract.record import Record
from punctual.contract.request import ID_BYTES, Headers, Op, Parked, Reason, Refusal, Request
from punctual.contract.times import MAX_DIGITS, parse_duration, parse_time, write_time

_OPS: dict[str, Op] = {
    "schedule": "schedule",
    "cancel": "cancel",
    "reschedule": "reschedule",
    "deliver-now": "deliver-now",
    "pause": "pause",
    "resume": "resume",
}
#: The possible actions beyond the maximum lateness.
LATE_POLICIES = ("deliver", "drop", "dead-letter")
NOTHING = "delivers nothing, because every message is a little late. Allow some milliseconds or seconds"
#: Names that are looked up for each record, as globals.
_ID, _TO, _AT, _AFTER, _OP, _PREFIX = names.ID, names.TO, names.AT, names.AFTER, names.OP, names.PREFIX
_DUE, _SOURCE, _RETRY, _RECURRENCE = names.DUE, names.SOURCE, names.RETRY, names.RECURRENCE
#: Headers that a dead letter replaces; the time of the request is left out too, because a letter sent again is new.
_LEFT_OUT = names.DEAD_LETTER | {names.ASKED_AT}
#: Headers about retries that are allowed without a backoff.
_ATTEMPTS = {names.ATTEMPT, names.MAX_ATTEMPTS}
#: A plain request has two headers in addition to its id: destination and due time.
_PLAIN = 2


class Copy(NamedTuple):
    """The identity of a delivery: all copies of a delivery have the same headers."""

    id: bytes
    due: bytes
    source: bytes


#: The headers of a Copy, in their order; and the maximum length of an id, which is that of an occurrence.
_TOLD_APART, _LONGEST_ID = (_ID, _DUE, _SOURCE), ID_BYTES + len("@") + MAX_DIGITS


def decode(record: Record) -> Request:
    """Return the request in a record.

    Raises Refusal with one of the reason codes of records.md#dead-letters.
    """
    return decode_plain(record) or _decode(record)


def _decode(record: Record) -> Request:
    headers, users = read(record)
    op = op_of(headers) if _OP in headers else "schedule"
    rare = (
        op != "schedule" or len(headers) - (_ID in headers) > _PLAIN or (_AT not in headers and _AFTER not in headers)
    )
    source, stamp_ms = f"{record.topic}-{record.partition}-{record.offset}", record.timestamp
    id_ = _id(headers, op, source)
    if op == "schedule":
        to = _to(headers, users)
        request = Request(op, id_, source, stamp_ms, record.topic, 0, to, record.key, record.value, users)
    else:
        request = Request(op, id_, source, stamp_ms, record.topic)
    if rare:
        read_rest(request, headers, record)
    if op == "deliver-now":
        request.due_ms = stamp_ms
    elif op == "pause" and _AT in headers:
        request.due_ms = due_of(headers, users, stamp_ms)
    elif op == "schedule" and _RETRY in headers:
        retry.decode(request, headers, record.headers)
    elif op == "schedule" and rare and not _RECURRENCE.isdisjoint(headers):
        first_ms = due_of(headers, users, stamp_ms) if _AT in headers or _AFTER in headers else None
        recurring.begin(request, headers, first_ms)
    elif op in ("schedule", "reschedule"):
        request.due_ms = due_of(headers, users, stamp_ms)
    if rare and request.jitter_ms:
        request.due_ms = spread_of(request, request.jitter_ms)
    return request


def spread_of(request: Request, jitter_ms: int) -> int:
    """Return the due time of a request with jitter; an occurrence is due before the next one."""
    if request.recurrence is not None and request.op == "schedule":
        return request.recurrence.due(request.id, request.due_ms)
    return spread(request.id, request.due_ms, jitter_ms)


def delivery(message: Message, due_ms: int) -> Headers:
    """Return the headers of a delivery that is due at `due_ms`: the user's own, then id, due time and source."""
    return [
        *message.headers,
        (_ID, message.id.encode()),
        (_DUE, b"%d" % due_ms),
        (_SOURCE, message.source.encode()),
    ]


def copy_of(headers: Sequence[tuple[str, bytes | None]]) -> Copy | None:
    """Return the identity of a delivery, from the headers that delivery() ends with; None if it is not a delivery."""
    names = tuple(name for name, _ in headers[-len(_TOLD_APART) :])
    if names != _TOLD_APART:
        return None
    copy = Copy(*(value or b"" for _, value in headers[-len(names) :]))
    return copy if len(copy.id) <= _LONGEST_ID else None


def again(message: Message, due_ms: int) -> Headers:
    """Return the headers of a request for the same message, due at `due_ms`: the user's own, then Punctual's."""
    headers: list[tuple[str, str | None]] = [
        (names.ID, message.id),
        (names.TO, message.to),
        (names.AT, write_time(due_ms)),
        (names.TO_PARTITION, None if message.partition is None else str(message.partition)),
        (names.TO_CLUSTER, message.cluster),
        (names.MAX_LATE, None if message.max_late_ms is None else str(message.max_late_ms)),
        (names.IF_LATE, message.if_late),
        (names.DEDUPE, None if message.dedupe_ms is None else str(message.dedupe_ms)),
        (names.ON_FAILURE, message.on_failure),
        (names.NO_LATER, None if message.no_later_ms is None else str(message.no_later_ms)),
    ]
    return [*message.headers, *((name, value.encode()) for name, value in headers if value is not None)]


def kept(record: Record) -> Headers:
    """Return the headers of a refused record that its dead letter keeps: all but those of an earlier letter."""
    return [(names.legible(name), value) for name, value in record.headers if name not in _LEFT_OUT]


def callback(record: Record) -> tuple[str, Headers]:
    """Return the URL to notify of a refused record, "" for none, and the user's own headers.

    The rest of the record may be invalid.
    """
    url = next((value for name, value in record.headers if name == names.ON_FAILURE and value), b"")
    users = [(names.legible(name), value) for name, value in record.headers if url and not name.startswith(_PREFIX)]
    return url.decode(errors="replace"), users


def failure(reason: Reason, sentence: str, source: str) -> Headers:
    """Return a dead letter's own headers, which follow the headers that it keeps."""
    return [(names.REASON, reason.value.encode()), (names.ERROR, sentence.encode()), (_SOURCE, source.encode())]


def op_of(headers: dict[str, str]) -> Op:
    """Return the operation in `names.OP`, which must be there. Raises Refusal if it is unknown."""
    op = _OPS.get(headers[names.OP])
    if op is None:
        raise Refusal(
            Reason.MALFORMED, f"{names.OP} is {headers[names.OP][:64]!r}. It must be one of {', '.join(_OPS)}."
        )
    return op


def read(record: Record) -> tuple[dict[str, str], Headers]:
    """Return the headers for Punctual as text, and the user's own headers. Raises Refusal."""
    headers: dict[str, str] = {}
    users: Headers = []
    ours = names.REQUEST
    for header in record.headers:
        name, value = header
        if name in ours:
            if name in headers:
                reason = Reason.AMBIGUOUS_DUE if name in (_AT, _AFTER) else Reason.MALFORMED
                raise Refusal(reason, f"the header {name} is given twice. Send it once.")
            try:
                headers[name] = value.decode() if value is not None else ""
            except UnicodeDecodeError as error:
                reason = Reason.BAD_ID if name == names.ID else Reason.MALFORMED
                raise Refusal(reason, f"the header {name} is not UTF-8.") from error
        elif not name.startswith(_PREFIX):
            if not name.isascii() and not names.is_text(name):
                raise Refusal(Reason.MALFORMED, f"the name of the header {name[:64]!r} is not UTF-8. Rename it.")
            users.append(header)
        elif name not in names.IGNORED:
            raise Refusal(
                Reason.MALFORMED,
                f"the header {name[:64]!r} is unknown. Names that begin with 'delay-' are reserved: rename "
                f"yours, or see docs/reference/records.md for the names.{_in_capitals([name], ours)}",
            )
    return headers, users


def _id(headers: dict[str, str], op: str, source: str) -> str:
    id_ = headers.get(_ID)
    if id_ is None:
        if op != "schedule":
            raise Refusal(Reason.BAD_ID, f"{op} needs {names.ID}: the id of the message to change.")
        return source
    if not id_ or (len(id_) > ID_BYTES // 4 and len(id_.encode()) > ID_BYTES):  # a character has at most 4 bytes
        raise Refusal(Reason.BAD_ID, f"{names.ID} has {len(id_.encode())} bytes. It must have 1 to {ID_BYTES}.")
    return id_


def _to(headers: dict[str, str], users: Headers) -> str:
    to = headers.get(_TO)
    if not to:
        hint = _in_capitals([name for name, _ in users], {names.TO})
        raise Refusal(Reason.MISSING_DESTINATION, f"{names.TO} is missing: name the topic to deliver to.{hint}")
    return to


def read_rest(request: Request, headers: dict[str, str], record: Record) -> None:
    """Read rare headers into the request. Raises Refusal."""
    request.if_due_ms = _number(headers, names.IF_DUE)
    request.asked_at_ms = _number(headers, names.ASKED_AT)
    if names.PARKED in headers:
        request.parked = _parked(record, headers, request.op)
    if names.JITTER in headers and request.op in ("schedule", "reschedule"):
        request.jitter_ms = _parsed(headers, names.JITTER, parse_duration)
    if request.op == "schedule":
        _options(request, headers)


def _options(request: Request, headers: dict[str, str]) -> None:
    request.partition = _number(headers, names.TO_PARTITION)
    request.cluster = headers.get(names.TO_CLUSTER)
    request.max_late_ms = _parsed(headers, names.MAX_LATE, parse_duration)
    request.if_late = headers.get(names.IF_LATE)
    request.dedupe_ms = _parsed(headers, names.DEDUPE, parse_duration)
    request.on_failure = headers.get(names.ON_FAILURE)
    request.no_later_ms = _parsed(headers, names.NO_LATER, parse_duration)
    if request.if_late is not None and request.if_late not in LATE_POLICIES:
        raise Refusal(Reason.MALFORMED, f"{names.IF_LATE} must be one of {', '.join(LATE_POLICIES)}.")
    if request.if_late is not None and request.max_late_ms is None:
        raise Refusal(Reason.MALFORMED, f"{names.IF_LATE} needs {names.MAX_LATE}: the maximum lateness.")
    if request.max_late_ms == 0 and request.if_late not in (None, "deliver") and request.parked is None:
        raise Refusal(Reason.MALFORMED, f"{names.MAX_LATE} 0 with {names.IF_LATE} {request.if_late} {NOTHING}.")
    if _RETRY not in headers and not _ATTEMPTS.isdisjoint(headers):
        retry.carry(request, headers)


def due_of(headers: dict[str, str], users: Headers, stamp_ms: int) -> int:
    """Return the due time, where needed relative to `stamp_ms`. Raises Refusal."""
    at, after = headers.get(_AT), headers.get(_AFTER)
    if at is not None and after is not None:
        raise Refusal(Reason.AMBIGUOUS_DUE, f"{names.AT} and {names.AFTER} are both given. Send one of them.")
    try:
        if at is not None:
            return parse_time(at)
        if after is not None:
            return stamp_ms + parse_duration(after)
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{names.AT if at is not None else names.AFTER}: {error}.") from error
    hint = _in_capitals([name for name, _ in users], {names.AT, names.AFTER, names.RETRY})
    raise Refusal(Reason.MISSING_DUE, f"{names.AT} or {names.AFTER} is missing. Set one of them.{hint}")


def _in_capitals(given: Iterable[str], wanted: Container[str]) -> str:
    """Return a hint that names are lower case, if a given name would then be valid."""
    meant = next((name for name in given if name.lower() in wanted), None)
    return f" Names of headers are lower case: {meant[:64]!r} is not {meant.lower()!r}." if meant else ""


def _parked(record: Record, headers: dict[str, str], op: str) -> Parked:
    """Return the cold tier's report about a message that it sends back. Raises Refusal."""
    stamp, _, snapshot = headers[names.PARKED].partition(",")
    sources = [value or b"" for name, value in record.headers if name == names.SOURCE]
    source = sources[0].decode(errors="replace") if len(sources) == 1 else ""
    first = next(
        ((value or b"").decode(errors="replace") for name, value in record.headers if name == names.FIRST), "0"
    )
    numbers = [stamp, snapshot, *source.rsplit("-", 2)[1:], first]
    if op == "schedule" and names.ID in headers and len(numbers) == 5 and all(map(_is_number, numbers)):  # noqa: PLR2004
        return Parked(int(stamp), int(snapshot), source, int(first) or None)
    raise Refusal(
        Reason.MALFORMED,
        f"{names.PARKED} is {headers[names.PARKED][:64]!r}. It is only for the cold tier, on a schedule with "
        f"{names.ID}, {names.SOURCE} and two times. Leave it out.",
    )


def _is_number(text: str) -> bool:
    return len(text) <= MAX_DIGITS and text.isascii() and text.isdigit()


def _number(headers: dict[str, str], name: str) -> int | None:
    text = headers.get(name)
    if text is None:
        return None
    if not _is_number(text):
        raise Refusal(Reason.MALFORMED, f"{name} is {text[:64]!r}. It must be a whole number in ASCII digits.")
    return int(text)


def _parsed(headers: dict[str, str], name: str, parse: Callable[[str], int]) -> int | None:
    text = headers.get(name)
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{name}: {error}.") from error
