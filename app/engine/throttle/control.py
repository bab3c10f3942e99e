"""A control record: an operator's settings for one destination (records.md#controls)."""

import math

import msgspec

from punctual.contract.destination import Destination, destination
from punctual.contract.rate import UNLIMITED, Rate, parse_rate, rate_of
from punctual.contract.times import parse_time

_TEXT, _LARGEST_MS = 500, 1 << 52


class _ControlRecord(msgspec.Struct, frozen=True):
    """The JSON value of a control record; unknown fields are ignored, so that newer workers can add fields."""

    paused: bool = False
    reason: str | None = None
    by: str | None = None
    until: int | str | None = None
    rate: str | int | float | None = None


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The control of a destination: whether it is paused, until when (epoch ms), why and by whom, and its rate limit.

    Without a `rate`, the rate limit in the settings applies, except if the destination is `unlimited`.
    """

    paused: bool = False
    reason: str = ""
    by: str = ""
    until_ms: int | None = None
    rate: Rate | None = None
    unlimited: bool = False

    def pauses(self, now_ms: int) -> bool:
        """Return whether the destination is paused now, by the brokers' clock."""
        return self.paused and (self.until_ms is None or now_ms < self.until_ms)


_decode = msgspec.json.Decoder(_ControlRecord).decode


def decode(key: bytes | None, value: bytes | None) -> tuple[Destination, Control | None]:
    """Return the destination of a record and its control; None if only the settings apply.

    Raises ValueError, or an error of msgspec, if the record is invalid.
    """
    if key is None:
        msg = "it has no key, which must be the destination"
        raise ValueError(msg)
    to = destination(key.decode())
    if value is None:
        return to, None
    fields = _decode(value)
    rate, unlimited = _rate(fields.rate)
    return to, Control(
        paused=fields.paused,
        reason=(fields.reason or "")[:_TEXT],
        by=(fields.by or "")[:_TEXT],
        until_ms=_time(fields.until),
        rate=rate,
        unlimited=unlimited,
    )


def _time(until: int | str | None) -> int | None:
    if until is None:
        return None
    until_ms = parse_time(until if isinstance(until, str) else str(until))
    if until_ms > _LARGEST_MS:
        msg = f"until is {until_ms}, which is not a time in epoch milliseconds"
        raise ValueError(msg)
    return until_ms


def _rate(text: str | float | None) -> tuple[Rate | None, bool]:
    """Return a rate limit, and whether the destination is unlimited."""
    if text is None or text == UNLIMITED:
        return None, text is not None
    if isinstance(text, str):
        return parse_rate(text), False
    if not math.isfinite(text):
        msg = f"rate is {text}"
        raise ValueError(msg)
    return rate_of(float(text)), False
