"""Due times of any type as epoch milliseconds. Times without a zone are UTC; fractions of a millisecond round up."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    NullType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from pipeline.errors import SchemaMismatch

_DIGITS = r"^[0-9]{1,15}$"
#: Numbers between these have 4 to 11 digits. They are a year, a day without dashes, or seconds, and not a time in the
#: years up to 1973. A smaller number means "at once".
_FROM_MS, _TO_MS = 1_000, 10**11
#: Numbers of more digits are microseconds or nanoseconds. The contract takes 15 digits (punctual.contract.times).
MAX_MS = 10**15 - 1
#: Spark alone would take '2027' for a day, and '10:00' for today.
_TIME = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?( ?([Zz]|[+-][0-9]{2}:[0-9]{2}))?)?$"
)


def due_ms(value: Column, kind: DataType, option: str) -> Column:
    """Return the epoch milliseconds of values of a type, as long; null where a value is not a time.

    A time is a timestamp, a date, a number of milliseconds, or a text with one of them (RFC 3339, with or without a
    zone). A number of 4 to 11 digits is not a time, because it would be seconds or a year, nor is one of more than 15,
    which would be microseconds or nanoseconds.

    Raises SchemaMismatch, naming the `option`, for other types.
    """
    if isinstance(kind, TimestampType | TimestampNTZType | DateType):
        return _millis(value.cast("timestamp"))
    if isinstance(kind, IntegralType | NullType):
        return _plausible(value.cast("long"))
    if isinstance(kind, DecimalType | FractionalType):
        return _plausible(F.ceil(value.try_cast("decimal(38,6)")).try_cast("long"))
    if isinstance(kind, StringType):
        text = F.trim(value)
        at = F.upper(text).try_cast("timestamp")
        return F.when(text.rlike(_DIGITS), _plausible(text.try_cast("long"))).when(text.rlike(_TIME), _millis(at))
    raise SchemaMismatch(
        f"{option} is of the type {kind.simpleString()}, which is not a time. Give a timestamp, a date, epoch "
        f"milliseconds, or a text of one of these."
    )


def _plausible(number: Column) -> Column:
    return F.when((number < _FROM_MS) | number.between(_TO_MS, MAX_MS), number)


def _millis(at: Column) -> Column:
    return F.unix_millis(at) + F.when(F.unix_micros(at) % 1000 != 0, 1).otherwise(0)
