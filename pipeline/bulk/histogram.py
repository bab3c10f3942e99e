"""When messages are due, as bars of text."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
#: Widths of bins that people think in; beyond them whole quarters.
_WIDTHS = (
    *(each * _MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * _HOUR for each in (1, 2, 3, 6, 12)),
    *(each * _DAY for each in (1, 2, 7, 14, 30, 90)),
)
_MOST, _BAR = 24, 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def width_ms(first_ms: int, last_ms: int) -> int:
    """Return the width of bins, in whole minutes, with which 24 are enough from the one time to the other."""
    fitting = (width for width in _WIDTHS if last_ms // width - first_ms // width < _MOST)
    return next(fitting, -(-(last_ms - first_ms + 1) // (_MOST - 1) // (90 * _DAY)) * 90 * _DAY)


def lines(bins: Mapping[int, int], width: int, overdue: int = 0) -> Iterator[str]:
    """Draw counts of messages, keyed by where a bin of `width` begins; empty ones in between are drawn too."""
    most = max(overdue, *bins.values(), 1) if bins else max(overdue, 1)
    if overdue:
        yield _line("already due", overdue, most)
    if bins:
        for begin in range(min(bins), max(bins) + 1, width):
            yield _line(_time(begin), bins.get(begin, 0), most)


def _line(name: str, count: int, most: int) -> str:
    bar = "#" * -(-count * _BAR // most)
    return f"{name:<16}  {count:>13,}  {bar}".rstrip()


def _time(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M")
