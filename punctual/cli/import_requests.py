"""The request for an exported message, and for a series also the commands that restore its state."""

import hashlib
from collections.abc import Iterator
from typing import Final

from punctual.cli.exported import Exported, octets
from punctual.client.requests import Request
from punctual.contract import headers as names
from punctual.contract import native
from punctual.contract.policies import without_policies
from punctual.contract.record import PlainRecord
from punctual.contract.request import ID_BYTES
from punctual.contract.times import parse_time, write_time

Header = tuple[str, bytes | None]


def requests_of(line: Exported, id_: str, now_ms: int | None = None) -> list[Request]:
    """Return the request that schedules a message again with the id `id_`, and the commands that follow if it recurs.

    With `now_ms` (epoch ms) the request counts as new; otherwise it keeps its original time, so that later commands and
    requests win. Policies of the input do not apply. Raises Refusal, as the worker would.
    """
    asked_ms = line.exported_ms if line.asked_ms is None else line.asked_ms
    if line.latest_ms is not None:
        asked_ms = min(asked_ms, line.latest_ms)
    if now_ms is not None:
        asked_ms = now_ms
    raw_id = id_.encode()
    series_headers = [(name, text.encode()) for name, text in _series_headers(line, asked_ms)]
    headers = (*((name, octets(value)) for name, value in line.headers), *series_headers, (names.ID, raw_id))
    headers += tuple(without_policies(dict(headers), recurs=line.recurs))
    request = Request(octets(line.key), octets(line.value), headers, raw_id)
    topic = f"{line.app_id}-requests"
    decoded = native.decode(PlainRecord(topic, 0, 0, line.exported_ms, request.key, request.value, headers))
    following = () if not line.recurs else _following(line, decoded.due_ms, asked_ms)
    commands = (((names.OP, op), (names.ID, raw_id), *more) for op, more in following)
    return [request, *(Request(raw_id, None, command, raw_id) for command in commands)]


def _series_headers(line: Exported, asked_ms: int) -> Iterator[tuple[str, str]]:
    planned_ms = line.due_ms if line.planned_ms is None else line.planned_ms
    if line.at is not None and parse_time(line.at) != planned_ms:  # it was changed in the file
        planned_ms = parse_time(line.at)
    elif line.asked_due_ms is not None:
        planned_ms = line.asked_due_ms
    numbers: list[tuple[str, int | None]] = [
        (names.TO_PARTITION, line.to_partition),
        (names.MAX_LATE, line.max_late),
        (names.DEDUPE, line.dedupe),
        (names.NO_LATER, None if line.latest_ms is None else max(line.latest_ms - asked_ms, 0)),
        (names.ASKED_AT, asked_ms),
    ]
    texts = [
        (names.TO_CLUSTER, line.to_cluster),
        (names.IF_LATE, line.if_late),
        (names.ON_FAILURE, line.on_failure),
    ]
    yield names.TO, line.to
    yield names.AT, write_time(planned_ms)
    yield from ((name, str(number)) for name, number in numbers if number is not None)
    yield from ((name, text) for name, text in texts if text is not None)
    yield from ((names.PREFIX + name, text) for name, text in line.schedule.items())


def _following(line: Exported, due_ms: int, asked_ms: int) -> Iterator[tuple[bytes, list[Header]]]:
    """Yield the commands that restore the state of a series' next occurrence, which the request makes due as planned.

    Commands that set its due time are stamped `asked_ms`. A pause is stamped with its own time, or `asked_ms` if that
    is later, and contains its beginning.
    """
    own_ms, when = line.kept_due_ms if line.paused else line.due_ms, (names.ASKED_AT, b"%d" % asked_ms)
    if line.extra and own_ms is not None:
        yield b"deliver-now", [when]
    elif own_ms is not None and own_ms != due_ms:
        # Jitter is part of this due time, even if the input has a jitter policy.
        yield b"reschedule", [(names.AT, write_time(own_ms).encode()), (names.JITTER, b"0"), when]
    since_ms = line.paused_since_ms
    if line.paused and since_ms is None:
        yield b"pause", [when]
    elif line.paused and since_ms is not None:
        at = (names.AT, write_time(since_ms).encode())
        yield b"pause", [at, (names.ASKED_AT, b"%d" % max(asked_ms, since_ms))]


# ids -----------------------------------------------------------------------------------------------------------------
_PARTS: Final = 3


def is_automatic(line: Exported) -> bool:
    """Return whether Punctual generated a message's id; elsewhere another request may get the same id."""
    parts = line.id.rsplit("-", 2)
    shaped = len(parts) == _PARTS and parts[0] == f"{line.app_id}-requests" and all(map(str.isdecimal, parts[1:]))
    return shaped or line.id == line.source or line.id.startswith(f"{line.source}~")  # the id of a retry


def id_elsewhere(line: Exported) -> str:
    """Return a unique id for a message with an automatic id in another installation, the same at each import."""
    id_ = f"{line.app_id}/{line.id}"
    if len(id_.encode()) <= _MOST:
        return id_
    return hashlib.blake2b(id_.encode(), digest_size=16).hexdigest()


#: The maximum bytes of an id; the rest is for the suffix of a recurring message's occurrences.
_MOST: Final = ID_BYTES - 16
