"""Records that a reader skips: those of others on internal topics, and those deleted before they were read.

Foreign records are counted, and logged once per topic: anyone who may write there can put anything there, and it must
not end a worker at each start again.
"""

import logging
from typing import Final

from prometheus_client import Counter

log = logging.getLogger(__name__)

_PASSED = Counter("delay_foreign_records", "Foreign records on an internal topic that were skipped.", ["topic"])
_said: set[str] = set()
#: Punctual's own records are smaller, and unpacking a mebibyte of JSON takes up to 50 ms of the event loop.
MAX_BYTES: Final = 1 << 20


def bounded(value: bytes | None) -> bytes:
    """Return a record's value as it is read. Raises ValueError if it is larger than any that is ours."""
    if value is not None and len(value) > MAX_BYTES:
        msg = f"it has {len(value):,} bytes, but Punctual's own records have at most {MAX_BYTES:,}"
        raise ValueError(msg)
    return value or b""


def passed_over(topic: str, partition: int, offset: int, why: object) -> None:
    """Count a record that cannot be ours; the first one of a topic is a warning that says `why`."""
    _PASSED.labels(topic).inc()
    level = logging.DEBUG if topic in _said else logging.WARNING
    _said.add(topic)
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
