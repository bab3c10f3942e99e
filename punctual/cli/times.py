"""Times and spans on the command line, in human form."""

import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Final

from punctual.contract.times import moment_of, parse_duration, parse_time

_SECOND_MS: Final = 1_000
#: The minimum of epoch milliseconds: since 2001 they have 13 digits. A smaller number is a mistake, such as seconds.
_RECENT_MS: Final = 10**12
#: The value of `now` for all arguments of one command.
_one_now_ms: Final = ContextVar[int | None]("one_now_ms", default=None)


def now_ms() -> int:
    """Return this machine's time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


@contextmanager
def one_now() -> Iterator[None]:
    """Fix the value of `now` for all times and spans, so that `--from now --until 2h` is exactly two hours."""
    token = _one_now_ms.set(now_ms())
    try:
        yield
    finally:
        _one_now_ms.reset(token)


def moment_ms(text: str) -> int:
    """Return the epoch milliseconds of a time, or of a span from now on: RFC 3339, epoch milliseconds, `now`, `15m`.

    Raises ArgumentTypeError with a sentence.
    """
    return _time_or_span(text, 1, "from now on")


def past_ms(text: str) -> int:
    """Return the epoch milliseconds of a time, or of a span before now: RFC 3339, epoch milliseconds, `now`, `15m`.

    Raises ArgumentTypeError with a sentence.
    """
    return _time_or_span(text, -1, "before now")


def _time_or_span(text: str, direction: int, meaning: str) -> int:
    at_ms = _one_now_ms.get() or now_ms()
    if text == "now":
        return at_ms
    try:
        return _time(text)
    except ValueError as error:
        try:
            return at_ms + direction * _span_with_unit(text)
        except ValueError:
            raise ArgumentTypeError(f"{error}; or use a span {meaning}: 90s, 15m, 2h, 1d") from error


def _time(text: str) -> int:
    """Return the epoch milliseconds of a time. Raises ValueError for a number too small to be a recent time."""
    at = parse_time(text)
    if text.isdigit() and 0 < at < _RECENT_MS:
        msg = f"{text!r} is in {moment_of(at):%B %Y} as epoch milliseconds. Use a recent time"
        raise ValueError(msg)
    return at


def _span_with_unit(text: str) -> int:
    """Return the milliseconds of a span. Raises ValueError for a bare number, which may be epoch seconds."""
    if not text.strip("0123456789.,_+-"):
        raise ValueError
    return parse_duration(text)


def moment(text: str) -> datetime:
    """Parse a time as a datetime. Raises ArgumentTypeError with a sentence."""
    try:
        return moment_of(moment_ms(text))
    except (ValueError, OverflowError, OSError) as error:
        raise ArgumentTypeError(f"{text[:64]!r} is beyond the year 9999") from error


def span(text: str) -> timedelta:
    """Parse a span: `500ms`, `90s`, `15m`, `2h`, `1d`, milliseconds, or ISO 8601.

    Raises ArgumentTypeError with a sentence.
    """
    try:
        return timedelta(milliseconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        raise ArgumentTypeError(str(error)) from error


def seconds(text: str) -> float:
    """Parse a number of seconds above 0, as a number or a span. Raises ArgumentTypeError with a sentence."""
    try:
        number = float(text)
    except ValueError:
        number = span(text).total_seconds()
    if not 0.1 <= number < 1e6:  # noqa: PLR2004 - prevents a flood of requests, and an endless wait
        raise ArgumentTypeError(f"{text[:64]!r} is not a number of seconds of 0.1 or more")
    return number


def written(moment_ms: int) -> str:
    """Return a time in the form of arguments, 2026-05-04T13:37:00.120Z; beyond the year 9999 in milliseconds.

    Whole seconds have no fraction.
    """
    try:
        whole = f"{datetime.fromtimestamp(moment_ms // _SECOND_MS, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return str(moment_ms)
    part = moment_ms % _SECOND_MS
    return f"{whole}.{part:03d}Z" if part else f"{whole}Z"
