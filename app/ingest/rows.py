"""The rows that requests become, and what is asked of them while they are taken in."""

import msgspec

from punctual.contract.request import Request
from tables import Entry, Order, Orders
from tables.orders import UNKNOWN_MS


def row_of(asked: Request) -> Entry:
    """Return the row that a request becomes: all that `Message` names, as it was asked for.

    This is the one place where fields of one are made fields of the other. They go by position, which is measurably
    cheaper than by name: a test compares them name by name.
    """
    order = asked.parked or asked
    return Entry(
        asked.id,
        asked.to,
        asked.key,
        asked.value,
        asked.headers,
        asked.source,
        asked.partition,
        asked.cluster,
        asked.max_late_ms,
        asked.if_late,
        asked.dedupe_ms,
        asked.on_failure,
        0,
        (),
        None,
        UNKNOWN_MS if asked.id in (asked.source, order.source) else order.stamp_ms,
        None if order is asked else order.source,
    )


def reminded(entry: Entry, known: Orders) -> Entry:
    """Return a message that the cold tier has sent back with the orders that this partition remembers of it.

    The tier tells of the last record alone, whatever that has changed.
    """
    latest = known.ended or Order(UNKNOWN_MS, entry.source)
    moved = next((one.order for one in known.waiting if one.moves), None)
    return msgspec.structs.replace(entry, stamp_ms=latest.stamp_ms, asked_by=latest.source, moved=moved)


def content(entry: Entry) -> Entry:
    """Return an entry without what tells two requests for the same thing apart."""
    return msgspec.structs.replace(
        entry, source="", stamp_ms=UNKNOWN_MS, asked_by=None, moved=None, commands=(), attempts=0, next_try_ms=None
    )
