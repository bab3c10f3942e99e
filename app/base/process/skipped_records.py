"""Records that a reader skips: foreign records on internal topics, and records deleted before they were read.

Foreign records are counted, and logged once per topic: any client with Write access can write them, and they must
not stop a worker at each start.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from prometheus_client import Counter

T = TypeVar("T")

log = logging.getLogger(__name__)

_PASSED = Counter("delay_foreign_records", "Foreign records on an internal topic that were skipped.", ["topic"])
_logged: set[str] = set()
#: The maximum size. Punctual's own records are smaller, and unpacking a mebibyte of JSON blocks the loop up to 50 ms.
MAX_BYTES: Final = 1 << 20


def bounded(value: bytes | None) -> bytes:
    """Return a record's value. Raises ValueError if it is larger than any of Punctual's own records."""
    if value is not None and len(value) > MAX_BYTES:
        msg = f"it has {len(value):,} bytes, but Punctual's own records have at most {MAX_BYTES:,}"
        raise ValueError(msg)
    return value or b""


def decoded(topic: str, partition: int, offset: int, value: bytes | None, decode: Callable[[bytes], T]) -> T | None:
    """Return what `decode` makes of a record's value; None, after passed_over(), if it is foreign."""
    try:
        return decode(bounded(value))
    except (ValueError, RecursionError) as error:
        passed_over(topic, partition, offset, error)
        return None


def passed_over(topic: str, partition: int, offset: int, why: object) -> None:
    """Count a foreign record; the first one of a topic is logged as a warning that says `why`."""
    _PASSED.labels(topic).inc()
    level = logging.DEBUG if topic in _logged else logging.WARNING
    _logged.add(topic)
    log.log(
        level,
        "%s-%d-%d was not written by Punctual and is skipped: %s. Check who may write to this topic; more of these "
        "are counted (delay_foreign_records_total) and not logged.",
        topic,
        partition,
        offset,
        str(why)[:500],
        extra={"topic": topic, "partition": partition, "offset": offset},
    )


def note_deleted(topic: str, number: int, first: int, begin: int) -> None:
    """Log that the records of an input from `first` to before `begin` were deleted before they were read."""
    log.error(
        "%s-%d: records %d to %d were deleted before they were read, because the topic's retention is shorter than "
        "the lag. Raise its retention.ms, and send the lost requests again.",
        topic,
        number,
        first,
        begin - 1,
        extra={"topic": topic, "partition": number, "offset": first},
    )
