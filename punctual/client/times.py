"""Times and spans in whole milliseconds, rounded up: a message is never due earlier than requested."""

from datetime import UTC, datetime, timedelta

from punctual.client.errors import InvalidDueTimeError, InvalidOptionError
from punctual.contract.times import LONGEST_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST = timedelta(milliseconds=LONGEST_MS)
_TOO_LONG = f"too long: the maximum is timedelta(milliseconds={LONGEST_MS}), 31,000 years."


def epoch_ms(moment: datetime, option: str = "at") -> int:
    """Return `moment` in milliseconds since 1970, a fraction of a millisecond rounded up.

    Exact for every zone and year: the arithmetic is on whole microseconds. Raises InvalidDueTimeError for a naive
    datetime, another type, or a time before 1970.
    """
    if not isinstance(moment, datetime):
        raise InvalidDueTimeError(
            f"{option}={moment!r} is not a datetime: write {option}=datetime.now(timezone.utc) + timedelta(minutes=5), "
            f"or datetime.fromtimestamp(seconds, timezone.utc) for epoch seconds."
        )
    if moment.utcoffset() is None:
        raise InvalidDueTimeError(
            f"{option}={moment!r} has no time zone: write datetime.now(timezone.utc) + ..., "
            f'or moment.replace(tzinfo=ZoneInfo("Europe/Berlin")) with its zone.'
        )
    milliseconds = _ceil(moment - _EPOCH)
    if milliseconds < 0:
        raise InvalidDueTimeError(
            f"{option}={moment!r} is before 1970, and Kafka has no timestamps for that: give a later time."
        )
    return milliseconds


def due_after_ms(span: timedelta) -> int:
    """Return the delay in milliseconds, rounded up.

    Raises InvalidDueTimeError when it is negative, longer than the contract's durations, or no timedelta.
    """
    if not isinstance(span, timedelta):
        raise InvalidDueTimeError(f"after={span!r} is not a timedelta: write after=timedelta(seconds=30).")
    if span < timedelta(0):
        raise InvalidDueTimeError(
            f"after={span!r} is negative: give zero or more; after=timedelta(0) delivers at once."
        )
    if span > _LONGEST:
        raise InvalidDueTimeError(f"after={span!r} is {_TOO_LONG}")
    return _ceil(span)


def span_ms(span: timedelta, option: str) -> int:
    """Return a span in milliseconds, rounded up.

    Raises InvalidOptionError when it is negative, longer than the contract's durations, or no timedelta.
    """
    if not isinstance(span, timedelta):
        raise InvalidOptionError(f"{option}={span!r} is not a timedelta: write {option}=timedelta(minutes=10).")
    if span < timedelta(0):
        raise InvalidOptionError(f"{option}={span!r} is negative: give zero or more.")
    if span > _LONGEST:
        raise InvalidOptionError(f"{option}={span!r} is {_TOO_LONG}")
    return _ceil(span)


def _ceil(span: timedelta) -> int:
    return -(-span // _MILLISECOND)
