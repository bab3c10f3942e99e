"""Maximum rates of destinations, as settings have them."""

from app.settings.values import words
from punctual.contract.destination import Destination, destination
from punctual.contract.rate import Rate, parse_rate


def rates(text: str) -> dict[str, Rate]:
    """Parse rates by the destinations' names: `emails=500/s,emea/orders=20/s burst 100`.

    Raises ValueError with a sentence.
    """
    result: dict[str, Rate] = {}
    for item in words(text):
        name, equals, rate = item.partition("=")
        name = name.strip()
        if not equals:
            msg = f"{item!r} is not of the form destination=rate"
            raise ValueError(msg)
        destination(name)
        if name in result:
            msg = f"{name} has two rates"
            raise ValueError(msg)
        result[name] = parse_rate(rate)
    return result


def by_destination(named: dict[str, Rate]) -> dict[Destination, Rate]:
    """Return the rates by destination instead of name."""
    return {destination(name): rate for name, rate in named.items()}


def optional(text: str) -> Rate | None:
    """Parse a rate; `0` is None.

    Raises ValueError with a sentence.
    """
    return None if text == "0" else parse_rate(text)
