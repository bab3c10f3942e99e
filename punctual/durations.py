"""Durations and moments in words: the same in the console, in the command line and in sentences of the API."""

from datetime import UTC, datetime
from typing import Final

SECOND_MS: Final = 1_000
_YEAR_MS: Final = 31_557_600_000  # with its share of leap days
#: From this number of years on, spans are shown in years.
_YEARS: Final = 2
_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", SECOND_MS), ("ms", 1))


def duration(span_ms: int) -> str:
    """Return a span in its two largest units: 3 d 4 h, 5 min 20 s; below a second in milliseconds; 2.5 y."""
    if span_ms >= _YEARS * _YEAR_MS:
        return f"{span_ms / _YEAR_MS:,.1f}".removesuffix(".0") + " y"
    return f"{span_ms} ms" if span_ms < SECOND_MS else exact(span_ms - span_ms % SECOND_MS, 2)


def exact(span_ms: int, most_units: int = len(_UNITS_MS)) -> str:
    """Return a positive span in all its units, or in at most `most_units` of the largest: 1 d 2 h 3 s."""
    index = next(index for index, (_, unit_ms) in enumerate(_UNITS_MS) if span_ms >= unit_ms)
    parts = []
    for name, unit_ms in _UNITS_MS[index : index + most_units]:
        whole, span_ms = divmod(span_ms, unit_ms)
        if whole:
            parts.append(f"{whole} {name}")
    return " ".join(parts)


def relative(moment_ms: int, now_ms: int) -> str:
    """Return the difference of a moment from now: in 5 min 20 s, 3 s ago; now, if less than a second."""
    if abs(moment_ms - now_ms) < SECOND_MS:
        return "now"
    if moment_ms > now_ms:
        return f"in {duration(moment_ms - now_ms)}"
    return f"{duration(now_ms - moment_ms)} ago"


def moment(at_ms: int) -> str:
    """Return a moment (epoch ms) to the second, in UTC: 29 Nov 2026 15:22:11 UTC; years beyond datetime in words."""
    try:
        at = datetime.fromtimestamp(at_ms // SECOND_MS, UTC)
    except (OverflowError, ValueError, OSError):
        return "after the year 9999" if at_ms > 0 else "before the year 1"
    return f"{at.day} {at:%b %Y %H:%M:%S} UTC"


def when(at_ms: int, now_ms: int) -> str:
    """Return a moment, and its difference from now: 29 Nov 2026 15:22:11 UTC (in 3 h)."""
    text = moment(at_ms)
    return f"{text} ({relative(at_ms, now_ms)})" if text.endswith("UTC") else text
