"""The maximum rate of messages to a destination, in text form: `500/s`, `20/m burst 100`."""

import re

import msgspec

#: The rate of a control record without any limit.
UNLIMITED = "none"
_SECONDS = {"s": 1, "m": 60, "h": 3_600}
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/([smh])(?: +burst +([0-9]{1,9}))?")
#: The maximum rate; a higher limit would have no effect.
_MOST_PER_S = 1_000_000


class Rate(msgspec.Struct, frozen=True):
    """Messages per second, and how many more may come at once after a quiet time."""

    per_s: float
    burst: int = 0

    def __str__(self) -> str:
        """Return the rate as text, which parse_rate() turns into the same rate."""
        burst = f" burst {self.burst}" if self.burst else ""
        counts = {unit: f"{self.per_s * seconds:.6f}".rstrip("0").rstrip(".") for unit, seconds in _SECONDS.items()}
        exact = (unit for unit, seconds in _SECONDS.items() if float(counts[unit]) / seconds == self.per_s)
        unit = next(exact, "h")  # without an exact form, the nearest
        return f"{counts[unit] if float(counts[unit]) else '0.000001'}/{unit}{burst}"


def parse_rate(text: str) -> Rate:
    """Parse a rate.

    Raises ValueError with a sentence.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        msg = f"{text[:64]!r} is not a rate. Use messages per second, minute or hour: 500/s, 20/m, 20/s burst 100"
        raise ValueError(msg)
    count, unit, burst = match.groups()
    return rate_of(float(count) / _SECONDS[unit], int(burst or 0))


def rate_of(per_s: float, burst: int = 0) -> Rate:
    """Return a rate within the limits.

    Raises ValueError with a sentence.
    """
    if not 0 < per_s <= _MOST_PER_S:
        msg = (
            f"a rate must be above 0 and at most {_MOST_PER_S} messages per second. To stop all deliveries, pause the "
            "destination"
        )
        raise ValueError(msg)
    return Rate(per_s, burst)
