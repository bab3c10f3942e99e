"""Counts messages that are late although no operator holds them back: alarms use this count."""

from typing import Final

from app.engine.partition.partition import Partition
from app.engine.steps.route import destination_of
from app.engine.throttle.throttle import Throttle
from punctual.contract.destination import Destination
from tables import keys
from tables.entry import decode

#: A message is overdue a second after its due time, so that messages in flight are not counted.
GRACE_MS: Final = 1_000
#: Maximum rows counted in the current hour; a row takes 2 µs, every second, on a worker that is busy.
_COUNTED = 1_000
#: Maximum rows decoded one by one while some are late on purpose, which takes a few milliseconds.
_LOOKED_AT = 1_000


def overdue(partition: Partition, oldest: bytes | None, before_ms: int, throttle: Throttle) -> int:
    """Count rows due by `before_ms`: whole hours by their counters, the current one by a bounded scan.

    Rows that wait for their next try are left out, and so are those whose destination is paused or rate-limited; if
    there are any of the latter, only a bounded number is counted.
    """
    if oldest is None or keys.due_of(oldest) > before_ms:
        return 0
    on_purpose = {
        to
        for to, row in partition.in_flight.aside.items()
        if throttle.throttles(to, before_ms + GRACE_MS - keys.due_of(row))
    }
    if on_purpose:
        return _beside(partition, before_ms, on_purpose)
    hour = before_ms // keys.BUCKET_MS
    whole = sum(count for number, count in partition.store.counts.hours.items() if number < hour)
    # Not from the hour's beginning, because a scan also passes delivered rows that are not compacted yet.
    since_ms = max(hour * keys.BUCKET_MS, keys.due_of(oldest))
    total = whole + partition.store.count(since_ms, before_ms, _COUNTED)
    return max(0, total - len(partition.in_flight.tries))


def _beside(partition: Partition, before_ms: int, on_purpose: set[Destination]) -> int:
    """Count rows due by `before_ms` except for some destinations, first the rows that the due loop has set aside."""
    in_flight, bound = partition.in_flight, keys.due_bound(before_ms)
    number = 0
    first = in_flight.first_unsettled(on_purpose)
    if first is not None:
        for count, (key, raw) in enumerate(partition.store.raw_rows(first)):
            if count == _LOOKED_AT or key >= min(bound, in_flight.cursor):
                break
            entry = decode(raw)
            number += key not in in_flight.tries and destination_of(entry) not in on_purpose
    following = partition.store.next_row(in_flight.cursor)
    if following is not None and following < bound:
        number += partition.store.count(keys.due_of(following), before_ms, _COUNTED)
    return number
