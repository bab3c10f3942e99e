"""Spans of time in words: the same on the command line and on the console's pages."""

from typing import Final

SECOND_MS: Final = 1_000
_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", SECOND_MS))


def duration(span_ms: int) -> str:
    """Return a span in its two largest units: 3 d 4 h, 5 min 20 s; whole milliseconds below one second."""
    if span_ms < SECOND_MS:
        return f"{span_ms} ms"
    index = next(index for index, (_, unit_ms) in enumerate(_UNITS_MS) if span_ms >= unit_ms)
    parts = []
    for name, unit_ms in _UNITS_MS[index : index + 2]:
        whole, span_ms = divmod(span_ms, unit_ms)
        if whole:
            parts.append(f"{whole} {name}")
    return " ".join(parts)


def relative(moment_ms: int, now_ms: int) -> str:
    """Return how far a moment is from now: in 5 min 20 s, 3 s ago; now, if less than a second."""
    if abs(moment_ms - now_ms) < SECOND_MS:
        return "now"
    if moment_ms > now_ms:
        return f"in {duration(moment_ms - now_ms)}"
    return f"{duration(now_ms - moment_ms)} ago"
