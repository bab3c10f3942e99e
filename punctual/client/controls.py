"""Control records (records.md#controls), without any I/O."""

import json
from datetime import datetime
from typing import Any

from punctual.client.errors import InvalidDestinationError, InvalidOptionError
from punctual.client.requests import Request
from punctual.client.times import epoch_ms
from punctual.contract.destination import destination
from punctual.contract.rate import UNLIMITED, parse_rate


def control(
    name: str,
    *,
    paused: bool,
    reason: str | None = None,
    by: str | None = None,
    until: datetime | int | None = None,
    rate: str | None = None,
) -> Request:
    """Return the record with the pause and rate limit of a destination; `until` may also be epoch milliseconds.

    Raises InvalidDestinationError, InvalidDueTimeError or InvalidOptionError.
    """
    if rate not in (None, UNLIMITED):
        _check(rate)
    fields: dict[str, Any] = {"paused": paused, "reason": reason, "by": by, "rate": rate}
    if until is not None:
        fields["until"] = until if isinstance(until, int) else epoch_ms(until, "until")
    value = json.dumps({field: value for field, value in fields.items() if value is not None}).encode()
    return Request(_key(name), value, (), None)


def no_control(name: str) -> Request:
    """Return the record that removes a destination's controls, so that only the settings apply.

    Raises InvalidDestinationError.
    """
    return Request(_key(name), None, (), None)


def _check(rate: object) -> None:
    try:
        parse_rate(rate if isinstance(rate, str) else repr(rate))
    except ValueError as error:
        raise InvalidOptionError(f"rate={rate!r}: {error}.") from error


def _key(name: str) -> bytes:
    try:
        destination(name)
    except ValueError as error:
        raise InvalidDestinationError(f"{error}.") from error
    return name.encode()
