"""The headers of a recurring message, from the client's arguments."""

import warnings
from datetime import datetime, timedelta
from typing import Final

from punctual.client.errors import InvalidOptionError
from punctual.client.times import epoch_ms, span_ms
from punctual.client.user_headers import RawHeader
from punctual.contract import headers as names
from punctual.contract import recurring
from punctual.contract.cron import doubt as unlikely
from punctual.contract.request import Refusal

#: The stack level of the caller of the client's method, which calls `schedule`.
_CALLER: Final = 4


def series_headers(
    every: timedelta | None,
    cron: str | None,
    zone: str | None,
    until: datetime | None,
    count: int | None,
    misfire: str | None,
) -> list[RawHeader]:
    """Return the headers for a series, an empty list without arguments; `options.DelayOptions` describes each.

    Warns of a cron expression that is unlikely to be intended. Raises InvalidOptionError, with the worker's own
    sentence.
    """
    headers = {
        names.EVERY: None if every is None else str(span_ms(every, "every")),
        names.CRON: cron,
        names.ZONE: zone,
        names.UNTIL: None if until is None else str(epoch_ms(until, "until")),
        names.COUNT: None if count is None else str(count),
        names.MISFIRE: misfire,
    }
    given = {name: text for name, text in headers.items() if text is not None}
    if not given:
        return []
    try:
        recurring.decode(given, 0, None)  # the worker checks the time of the request
    except Refusal as refusal:
        raise InvalidOptionError(refusal.sentence) from refusal
    doubt = None if cron is None else unlikely(cron)
    if doubt is not None:
        warnings.warn(f"cron={cron!r}: {doubt}.", stacklevel=_CALLER)
    return [(name, text.encode()) for name, text in given.items()]
