"""How many messages a destination may get in a time, as people say it: `500/s`, `20/m burst 100`."""

import re

import msgspec

#: What a control record says for no cap at all.
UNLIMITED = "none"
_SECONDS = {"s": 1, "m": 60, "h": 3_600}
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/([smh])(?: +burst +([0-9]{1,9}))?")
#: Beyond that no cap is noticed.
_MOST_PER_S = 1_000_000


class Rate(msgspec.Struct, frozen=True):
    """Messages a second, and how many more may come at once after a while with few."""

    per_s: float
    burst: int = 0

    def __str__(self) -> str:
        """Return what people write for it: parse_rate() makes the same rate of that."""
        burst = f" burst {self.burst}" if self.burst else ""
        counts = {unit: f"{self.per_s * seconds:.6f}".rstrip("0").rstrip(".") for unit, seconds in _SECONDS.items()}
        exact = (unit for unit, seconds in _SECONDS.items() if float(counts[unit]) / seconds == self.per_s)
        unit = next(exact, "h")  # of what nobody has written, the nearest
        return f"{counts[unit] if float(counts[unit]) else '0.000001'}/{unit}{burst}"


def parse_rate(text: str) -> Rate:
    """Return the rate that `text` says.

    Raises ValueError with a sentence.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        msg = f"{text[:64]!r} is not a rate. Use messages per second, minute or hour: 500/s, 20/m, 20/s burst 100"
        raise ValueError(msg)
    count, unit, burst = match.groups()
    return rate_of(float(count) / _SECONDS[unit], int(burst or 0))


def rate_of(per_s: float, burst: int = 0) -> Rate:
    """Return a rate within bounds.

    Raises ValueError with a sentence.
    """
    if not 0 < per_s <= _MOST_PER_S:
        msg = (
            f"a rate must be above 0 and at most {_MOST_PER_S} messages per second. To stop all deliveries, pause the "
            "destination"
        )
        raise ValueError(msg)
    return Rate(per_s, burst)
