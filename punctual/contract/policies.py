"""Policies of an input topic: defaults for its requests (DELAY_POLICIES).

Retries and markers of queues, which `names.RETRY` or `names.ATTEMPT` identify, get no policies.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from punctual.contract import headers as names
from punctual.contract.dialects.dialects import Dialect
from punctual.contract.native import LATE_POLICIES, NOTHING, spread_of
from punctual.contract.record import Record
from punctual.contract.request import Request
from punctual.contract.times import LONGEST_MS, parse_duration


@dataclass(frozen=True, slots=True)
class Policies:
    """Defaults for the requests of one input. Durations are milliseconds; None leaves it to the request."""

    no_later_ms: int | None = None
    jitter_ms: int | None = None
    max_late_ms: int | None = None
    if_late: str | None = None
    dedupe_ms: int | None = None


def parse_policies(text: str) -> Policies:
    """Parse policies: `no-later PT10S jitter 500`, names followed by values.

    Raises ValueError with a sentence.
    """
    values: dict[str, Any] = {}
    words = text.split()
    for name, *value in (words[place : place + 2] for place in range(0, len(words), 2)):
        if name not in _PARSERS:
            msg = f"{name!r} is not a policy. Use {', '.join(_PARSERS)}"
            raise ValueError(msg)
        field, parse = _PARSERS[name]
        if not value or field in values:
            msg = f"{name} is given twice" if value else f"{name} needs a value after it"
            raise ValueError(msg)
        values[field] = parse(value[0])
    if not values:
        msg = f"it has no policy. Write names and values, as in 'no-later PT10S'; the names are {', '.join(_PARSERS)}"
        raise ValueError(msg)
    if "if_late" in values and "max_late_ms" not in values:
        msg = "if-late needs max-late: the maximum lateness."
        raise ValueError(msg)
    if values.get("max_late_ms") == 0 and values.get("if_late") in ("drop", "dead-letter"):
        msg = f"max-late 0 {NOTHING}"
        raise ValueError(msg)
    return Policies(**values)


@lru_cache(maxsize=1_000)
def with_policies(dialect: Dialect, policies: Policies) -> Dialect:
    """Return a dialect whose requests get these policies as defaults."""
    return replace(dialect, decode=partial(_decode, dialect.decode, policies))


def without_policies(headers: Container[str], *, recurs: bool) -> Iterator[tuple[str, bytes | None]]:
    """Yield headers that keep policies of an input from changing when a request is due, or whether it is sent.

    There is one header for each policy without a name in `headers`. The time for which the delivery is remembered
    still follows the input, because no header stands for the installation's setting.
    """
    if names.JITTER not in headers:
        yield names.JITTER, b"0"
    if names.MAX_LATE not in headers and names.IF_LATE not in headers:
        yield names.MAX_LATE, _NEVER
    if names.NO_LATER not in headers and not recurs:
        yield names.NO_LATER, _NEVER


def _decode(decode: Callable[[Record], Request], policies: Policies, record: Record) -> Request:
    request = decode(record)
    # Messages from the cold tier already have their policies. For attempts, the program that counts them sets the due
    # time: a queue's marker that is due earlier hands a message out twice, and a dropped marker loses the message.
    if request.parked is None and not any(name in _OF_ATTEMPTS for name, _ in record.headers):
        _add(request, policies)
    return request


def _add(request: Request, policies: Policies) -> None:
    if policies.jitter_ms and request.jitter_ms is None and request.op in ("schedule", "reschedule"):
        request.jitter_ms = policies.jitter_ms
        if request.recurrence is not None:
            request.recurrence = msgspec.structs.replace(request.recurrence, jitter_ms=policies.jitter_ms)
        request.due_ms = spread_of(request, policies.jitter_ms)
    if request.op != "schedule":
        return
    if request.max_late_ms is None:
        request.max_late_ms, request.if_late = policies.max_late_ms, policies.if_late
    if request.recurrence is not None:
        return  # recurring messages have no debounce or dedupe
    if request.no_later_ms is None:
        request.no_later_ms = policies.no_later_ms
    if request.dedupe_ms is None:
        request.dedupe_ms = policies.dedupe_ms


def _if_late(text: str) -> str:
    if text not in LATE_POLICIES:
        msg = f"if-late must be one of {', '.join(LATE_POLICIES)}"
        raise ValueError(msg)
    return text


_OF_ATTEMPTS: Final = frozenset({names.RETRY, names.ATTEMPT})
_NEVER: Final = b"%d" % LONGEST_MS
_PARSERS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "no-later": ("no_later_ms", parse_duration),
    "jitter": ("jitter_ms", parse_duration),
    "max-late": ("max_late_ms", parse_duration),
    "if-late": ("if_late", _if_late),
    "dedupe": ("dedupe_ms", parse_duration),
}
assert {field for field, _ in _PARSERS.values()} == {field.name for field in fields(Policies)}
