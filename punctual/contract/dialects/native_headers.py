"""Native headers together with another dialect: they add parts that the dialect lacks, and must not repeat others.

An id or a destination may be in both if they are equal; a due time may only be in one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from punctual.contract import headers as names
from punctual.contract import native, recurring
from punctual.contract.destination import shown
from punctual.contract.record import Record
from punctual.contract.request import ID_BYTES, Headers, Op, Reason, Refusal, Request
from punctual.contract.words import Words

T = TypeVar("T")

_DUE = (names.AT, names.AFTER)


@dataclass(slots=True)
class Own:
    """The parts of a request in its dialect; None where there is none."""

    id: str | None = None
    to: str | None = None
    due_ms: int | None = None
    partition: int | None = None
    on_failure: str | None = None
    #: The part that makes it a cancel, as a clause of a sentence; empty if it does not cancel.
    cancels: str = ""
    #: Whether it is due at once without a due time.
    at_once: bool = False
    #: Its recurrence, in native headers.
    recurs: dict[str, str] = field(default_factory=dict)


def read(record: Record) -> tuple[dict[str, str], Headers]:
    """Return a record's native headers, and its other headers. Raises Refusal.

    An id together with `names.DUE` belongs to the delivery that the record was before, because programs pass on
    received headers. It is not the id of the request, except in a command.
    """
    headers, users = native.read(record)
    if names.PARKED in headers:
        sentence = f"{names.PARKED} is only for the cold tier, which writes to the requests topic."
        raise Refusal(Reason.MALFORMED, f"{sentence} Leave it out.")
    if names.RETRY in headers:
        sentence = f"{names.RETRY} works only on the requests topic. Send the record there."
        raise Refusal(Reason.MALFORMED, sentence)
    if names.ID in headers and names.OP not in headers and any(name == names.DUE for name, _ in record.headers):
        del headers[names.ID]
    return headers, users


def is_command(headers: dict[str, str]) -> bool:
    """Return whether native headers make the record a command, whose value is then ignored. Raises Refusal."""
    return names.OP in headers and native.op_of(headers) != "schedule"


def request(
    record: Record,
    words: Words,
    headers: dict[str, str],
    own: Own,
    key: bytes | None,
    value: bytes | None,
    users: Headers,
) -> Request:
    """Return the request in a record, from its native `headers` and its dialect's parts `own`, named by `words`.

    `key`, `value` and `users` are those of the delivery. Raises Refusal.
    """
    if own.recurs:
        twice = next((name for name in sorted(names.RECURRENCE) if name in headers), None)
        if twice is not None:
            raise Refusal(Reason.MALFORMED, f"{words.due} and {twice} are both given. Leave one of them out.")
        headers = {**headers, **own.recurs}
    op = _op(headers, words, own)
    source = f"{record.topic}-{record.partition}-{record.offset}"
    result = Request(op, _id(headers, words, own, op, source), source, record.timestamp, record.topic)
    if op == "schedule":
        result.to = _once(names.TO, headers.get(names.TO), own.to, words.to, shown) or ""
        if not result.to:
            raise Refusal(Reason.MISSING_DESTINATION, f"{words.to} is missing: name the topic to deliver to.")
        result.key, result.value, result.headers = key, value, users
    native.read_rest(result, headers, record)
    if op == "schedule":
        result.partition = _once(names.TO_PARTITION, result.partition, own.partition, words.partition)
        result.on_failure = _once(names.ON_FAILURE, result.on_failure, own.on_failure, words.on_failure, shown)
    if op == "deliver-now":
        result.due_ms = record.timestamp
    elif op in ("schedule", "reschedule"):
        if op == "schedule" and not names.RECURRENCE.isdisjoint(headers):
            is_given = own.due_ms is not None or any(name in headers for name in _DUE)
            first_ms = _due(headers, words, own, op, record.timestamp) if is_given else None
            recurring.begin(result, headers, first_ms)
        else:
            result.due_ms = _due(headers, words, own, op, record.timestamp)
        if result.jitter_ms:
            result.due_ms = native.spread_of(result, result.jitter_ms)
    return result


def unchanged(
    record: Record, words: Words, headers: dict[str, str], users: Headers, due_ms: int | None, to: str | None
) -> Request:
    """Return the request that delivers a record unchanged to `to`, its input's destination; without `due_ms`, at once.

    Raises Refusal.
    """
    own = Own(to=None if is_command(headers) else to, due_ms=due_ms, at_once=True)
    return request(record, words, headers, own, record.key, record.value, users)


def key_id(record: Record) -> str | None:
    """Return the record's key as an id, None if it is blank. Raises Refusal."""
    try:
        id_ = (record.key or b"").decode()
    except UnicodeDecodeError as error:
        raise Refusal(
            Reason.BAD_ID, "the record's key, which is the message's id, is not UTF-8. Use text as the key."
        ) from error
    return id_ if id_.strip() else None


def _op(headers: dict[str, str], words: Words, own: Own) -> Op:
    op: Op = native.op_of(headers) if names.OP in headers else "cancel" if own.cancels else "schedule"
    if own.cancels and op != "cancel":
        sentence = f"{own.cancels}, which cancels, but {names.OP} is {op}. Leave one of them out."
        raise Refusal(Reason.MALFORMED, sentence)
    if op != "schedule" and not own.cancels:
        # A reschedule may have its due time in either form.
        there = words.to if own.to is not None else words.due if own.due_ms is not None and op != "reschedule" else ""
        if there:
            sentence = f"{names.OP} is {op}, but {there} schedules a message. Leave one of them out."
            raise Refusal(Reason.MALFORMED, sentence)
    return op


def _id(headers: dict[str, str], words: Words, own: Own, op: Op, source: str) -> str:
    id_ = _once(names.ID, headers.get(names.ID), own.id, words.id)
    if id_ is None:
        if op == "schedule" and words.id == names.ID:
            return source
        raise Refusal(Reason.BAD_ID, f"{words.id} is empty or missing. Set it to the id of the message.")
    length = len(id_.encode())
    if not 0 < length <= ID_BYTES:
        called = names.ID if names.ID in headers else words.id
        raise Refusal(Reason.BAD_ID, f"{called} has {length} bytes. As an id, it must have 1 to {ID_BYTES}.")
    return id_


def _due(headers: dict[str, str], words: Words, own: Own, op: Op, stamp_ms: int) -> int:
    given = [name for name in _DUE if name in headers]
    if own.due_ms is None:
        if given:
            return native.due_of(headers, [], stamp_ms)
        if own.at_once and op == "schedule":
            return stamp_ms
        raise Refusal(Reason.MISSING_DUE, f"{words.due} is missing. Set it to the due time.")
    if given:
        raise Refusal(Reason.AMBIGUOUS_DUE, f"{words.due} and {given[0]} are both given. Send one of them.")
    return own.due_ms


def _once(name: str, given: T | None, own: T | None, called: str, written: Callable[[T], str] = str) -> T | None:
    """Return the value `given` in the native header `name`, or the dialect's `own`.

    Raises Refusal if they differ, with a sentence that contains both as `written`.
    """
    if own is not None and given is not None and own != given:
        sentence = f"{called} is {written(own)[:64]!r}, but {name} is {written(given)[:64]!r}. Leave one of them out."
        raise Refusal(Reason.MALFORMED, sentence)
    return given if own is None else own
