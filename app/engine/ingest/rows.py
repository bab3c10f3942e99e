"""The rows that requests become, and what is asked of them while they are taken in."""

import msgspec

from app.engine.steps.series_rules import begun
from punctual.contract.request import Request
from punctual.contract.times import LONGEST_MS
from tables import Bound, Entry, RecordStamp, RememberedCommands
from tables.commands import OF_SERIES, UNKNOWN_MS


def row_of(asked: Request) -> Entry:
    """Return the row that a request becomes: all that `Message` names, as it was asked for.

    This is the one place where fields of one are made fields of the other. They go by position, which is measurably
    cheaper than by name: a test compares them name by name.
    """
    record = asked.parked or asked
    stamp_ms = UNKNOWN_MS if asked.id in (asked.source, record.source) else record.stamp_ms
    max_late_ms, if_late = asked.max_late_ms, asked.if_late
    if max_late_ms == LONGEST_MS:  # so a request says that there is none
        max_late_ms = if_late = None
    entry = Entry(
        asked.id,
        asked.to,
        asked.key,
        asked.value,
        asked.headers,
        asked.source,
        asked.partition,
        asked.cluster,
        max_late_ms,
        if_late,
        asked.dedupe_ms,
        asked.on_failure,
        0,
        (),
        None,
        stamp_ms,
        None if record is asked else record.source,
        None,
        None if asked.no_later_ms is None and record is asked else _bound(asked, RecordStamp(stamp_ms, record.source)),
    )
    if asked.recurrence is None:
        return entry
    return msgspec.structs.replace(entry, series=begun(asked.recurrence, asked.planned_ms))


def _bound(asked: Request, stamp: RecordStamp) -> Bound | None:
    """Return the bound that a request asks for; that of what the cold tier sends back has begun before."""
    first_ms = asked.stamp_ms if asked.parked is None else asked.parked.first_ms
    if asked.no_later_ms is None or asked.no_later_ms == LONGEST_MS:
        return None if asked.parked is None or first_ms is None else Bound(first_ms)
    return Bound(stamp.stamp_ms if first_ms is None else first_ms, asked.no_later_ms, stamp)


def reminded(entry: Entry, known: RememberedCommands) -> Entry:
    """Return a message that the cold tier has sent back with the commands that this partition remembers of it.

    The tier tells of the last record alone, whatever that has changed.
    """
    latest = known.ended or RecordStamp(UNKNOWN_MS, entry.source)
    moved = next((one.stamp for one in known.waiting if one.moves and one.op not in OF_SERIES), None)
    return msgspec.structs.replace(entry, stamp_ms=latest.stamp_ms, asked_by=latest.source, moved=moved)


def content(entry: Entry) -> Entry:
    """Return an entry without what tells two requests for the same thing apart."""
    return msgspec.structs.replace(
        entry,
        source="",
        stamp_ms=UNKNOWN_MS,
        asked_by=None,
        moved=None,
        commands=(),
        attempts=0,
        next_try_ms=None,
        bound=None,
    )
