"""The rows that requests become, and what is asked of them while they are taken in."""

import msgspec

from app.engine.steps.series_rules import begun
from punctual.contract.request import Request
from punctual.contract.times import LONGEST_MS
from tables import Bound, Entry, RecordStamp, RememberedCommands
from tables.commands import OF_SERIES, UNKNOWN_MS


def row_of(request: Request) -> Entry:
    """Return the row that a request becomes: all that `Message` names, as it was asked for.

    This is the one place where fields of one are made fields of the other. They go by position, which is measurably
    cheaper than by name: a test compares them name by name.
    """
    record = request.parked or request
    stamp_ms = UNKNOWN_MS if request.id in (request.source, record.source) else record.stamp_ms
    max_late_ms, if_late = request.max_late_ms, request.if_late
    if max_late_ms == LONGEST_MS:  # so a request says that there is none
        max_late_ms = if_late = None
    entry = Entry(
        request.id,
        request.to,
        request.key,
        request.value,
        request.headers,
        request.source,
        request.partition,
        request.cluster,
        max_late_ms,
        if_late,
        request.dedupe_ms,
        request.on_failure,
        0,
        (),
        None,
        stamp_ms,
        None if record is request else record.source,
        None,
        None
        if request.no_later_ms is None and record is request
        else _bound(request, RecordStamp(stamp_ms, record.source)),
    )
    if request.recurrence is None:
        return entry
    return msgspec.structs.replace(entry, series=begun(request.recurrence, request.planned_ms))


def _bound(request: Request, stamp: RecordStamp) -> Bound | None:
    """Return the bound that a request asks for; that of what the cold tier sends back has begun before."""
    first_ms = request.stamp_ms if request.parked is None else request.parked.first_ms
    if request.no_later_ms is None or request.no_later_ms == LONGEST_MS:
        return None if request.parked is None or first_ms is None else Bound(first_ms)
    return Bound(stamp.stamp_ms if first_ms is None else first_ms, request.no_later_ms, stamp)


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
