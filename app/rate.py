"""How many messages a destination may get in a time, as people say it: `500/s`, `20/m burst 100`."""

import re

import msgspec

from app.route import Destination, destination
from app.settings_values import words

_SECONDS = {"s": 1, "m": 60, "h": 3_600}
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/([smh])(?: +burst +([0-9]{1,9}))?")
#: Beyond that no cap is noticed.
_MOST_PER_S = 1_000_000


class Rate(msgspec.Struct, frozen=True):
    """Messages a second, and how many more may come at once after a while with few."""

    per_s: float
    burst: int = 0


def parse_rate(text: str) -> Rate:
    """Return the rate that `text` says.

    Raises ValueError with a sentence.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        msg = f"{text[:64]!r} is no rate. Write messages by second, minute or hour: 500/s, 20/m, 20/s burst 100"
        raise ValueError(msg)
    count, unit, burst = match.groups()
    return rate_of(float(count) / _SECONDS[unit], int(burst or 0))


def rate_of(per_s: float, burst: int = 0) -> Rate:
    """Return a rate within bounds.

    Raises ValueError with a sentence.
    """
    if not 0 < per_s <= _MOST_PER_S:
        msg = f"a rate is above 0 and at most {_MOST_PER_S} messages a second; to hold all back, pause the destination"
        raise ValueError(msg)
    return Rate(per_s, burst)


def rates(text: str) -> dict[str, Rate]:
    """Return rates by the destinations' names: `emails=500/s,emea/orders=20/s burst 100`.

    Raises ValueError with a sentence.
    """
    found: dict[str, Rate] = {}
    for item in words(text):
        name, equals, rate = item.partition("=")
        name = name.strip()
        if not equals:
            msg = f"{item!r} is not of the form destination=rate"
            raise ValueError(msg)
        destination(name)
        if name in found:
            msg = f"{name} has two rates"
            raise ValueError(msg)
        found[name] = parse_rate(rate)
    return found


def by_destination(named: dict[str, Rate]) -> dict[Destination, Rate]:
    """Return the same by destination."""
    return {destination(name): rate for name, rate in named.items()}


def optional(text: str) -> Rate | None:
    """Return a rate, None for `0`.

    Raises ValueError with a sentence.
    """
    return None if text == "0" else parse_rate(text)
