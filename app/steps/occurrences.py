"""Occurrences of recurring messages: which one comes next, and what one looks like (records.md#recurring-messages).

The row of a series is its next occurrence. Whatever ends that puts the one after it in the same step.
"""

import logging
from functools import lru_cache

import msgspec

from punctual.contract.recurrence import Recurrence
from punctual.contract.zones import parse_zone
from tables import Command, Entry, Series, keys
from tables.orders import OF_SERIES, Operation

log = logging.getLogger(__name__)

#: When an occurrence of a series is due that is paused: 9999-12-31, which no request can ask for.
PAUSED_MS = 253_402_214_400_000

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Recurrence)


@lru_cache(maxsize=10_000)
def _rule(raw: bytes) -> Recurrence:
    rule = _decoder.decode(raw)
    if rule.zone is None:
        return rule
    try:
        parse_zone(rule.zone)
    except ValueError:  # whoever accepted it had other zones
        log.error("a series goes by the zone %s, which is not known here, and by UTC instead: update tzdata", rule.zone)  # noqa: TRY400
        return msgspec.structs.replace(rule, zone=None)
    return rule


def rule_of(series: Series) -> Recurrence:
    """Return when a series goes on."""
    return _rule(series.rule)


def begun(rule: Recurrence, planned_ms: int) -> Series:
    """Return a series whose first occurrence is planned then."""
    return Series(_encode(rule), planned_ms)


def due_of(rule: Recurrence, id_: str, planned_ms: int) -> int:
    """Return when an occurrence is due that is planned then: its jitter may be later."""
    return rule.due(id_, planned_ms)


def is_as_planned(series: Series, id_: str, due_ms: int) -> bool:
    """Return whether an occurrence is due as its series has planned it, and was not moved."""
    return due_ms == due_of(rule_of(series), id_, series.planned_ms)


def number_of(entry: Entry) -> int | None:
    """Return which occurrence a row is, for its events; None for the first one, and for what does not recur."""
    series = entry.series
    return None if series is None or series.number == 1 else series.number


def occurrence(entry: Entry, due_ms: int) -> Entry:
    """Return the message that a row is when it is due: of a series one of its own, which does not recur."""
    if entry.series is None:
        return entry
    return msgspec.structs.replace(entry, id=f"{entry.id}@{due_ms}", series=None)


def source_of(entry: Entry, due_ms: int) -> str:
    """Return the name that no other delivery and no other callback has: the source, of an occurrence with its time."""
    return entry.source if entry.series is None else f"{entry.source}@{due_ms}"


def allows(entry: Entry, op: str) -> bool:
    """Return whether a command can be for a message: only what recurs is paused, and resumed."""
    return entry.series is not None or op not in OF_SERIES


def is_missed(entry: Entry, row: bytes, now_ms: int) -> bool:
    """Return whether an occurrence is not to be delivered any more: too late, or a later one has taken its place."""
    series = entry.series
    if series is None:
        return False
    rule, due_ms = rule_of(series), keys.due_of(row)
    if rule.window_ms is not None and now_ms - due_ms > rule.window_ms:
        return True
    if rule.misfire != "catch-up-last" or now_ms <= due_ms or _is_last(rule, series):
        return False
    following_ms = rule.after(_after(rule, series, due_ms))
    return following_ms is not None and due_of(rule, entry.id, following_ms) <= now_ms


def following(entry: Entry, row: bytes, now_ms: int) -> tuple[int, Entry] | None:
    """Return when the occurrence after the one in a row is due, and its entry; None if it was the last one.

    Of those that are due by `now_ms` the policy for what was missed chooses.
    """
    series = entry.series
    assert series is not None, "it does not recur"
    rule = rule_of(series)
    if _is_last(rule, series):
        return None
    planned_ms = _planned(rule, _after(rule, series, keys.due_of(row)), now_ms)
    if planned_ms is None:
        return None
    new = Series(series.rule, planned_ms, series.number + 1)
    due_ms = due_of(rule, entry.id, planned_ms)
    return due_ms, msgspec.structs.replace(entry, series=new, commands=(), attempts=0, next_try_ms=None)


def moved(entry: Entry, op: str, due_ms: int, now_ms: int) -> tuple[int, Entry]:
    """Return when the occurrence in a row is due that a command moves, to `due_ms` unless it says otherwise itself.

    One that is run now is an extra one: the one that was planned follows. A series that is resumed goes on with the
    next one that is planned.
    """
    series = entry.series
    if series is None:
        return due_ms, entry
    if op == "deliver-now" and due_ms < series.planned_ms:
        series = msgspec.structs.replace(series, planned_ms=series.planned_ms - 1)
    elif op == "resume":
        rule = rule_of(series)
        planned_ms = rule.after(max(now_ms, series.planned_ms - 1))  # which may be set back
        planned_ms = series.planned_ms if planned_ms is None else planned_ms
        series = msgspec.structs.replace(series, planned_ms=planned_ms)
        due_ms = due_of(rule, entry.id, planned_ms)
    return due_ms, msgspec.structs.replace(entry, series=series)


def mover(entry: Entry, row: bytes) -> Command | None:
    """Return the command that has moved the message in a row, for an older request that comes late; None if none has.

    The row knows when it was given, and what has come of it. An occurrence that is due as planned was moved by what a
    message that does not recur has nothing of: the series was resumed, or it is an earlier one that was moved.
    """
    if entry.moved is None:
        return None
    due_ms, series = entry.asked_due(row), entry.series
    op: Operation = "reschedule"
    if series is not None and due_ms == PAUSED_MS:
        op = "pause"
    elif series is not None and is_as_planned(series, entry.id, due_ms):
        op = "resume"
    return Command(op, entry.moved.source, due_ms, stamp_ms=entry.moved.stamp_ms)


def _is_last(rule: Recurrence, series: Series) -> bool:
    return rule.count is not None and series.number >= rule.count


def _after(rule: Recurrence, series: Series, due_ms: int) -> int:
    """Return the time after which the next occurrence is planned: one that was put off takes the place of others."""
    latest_ms = series.planned_ms + rule.jitter_at(series.planned_ms)
    return due_ms if due_ms > latest_ms else series.planned_ms


def _planned(rule: Recurrence, after_ms: int, now_ms: int) -> int | None:
    """Return when the next occurrence is planned of which it is not known by `now_ms` that it is missed."""
    planned_ms = rule.after(after_ms)
    if planned_ms is None or planned_ms > now_ms:
        return planned_ms
    if rule.misfire == "catch-up-last":
        planned_ms = rule.last_before(after_ms, now_ms) or planned_ms
    if rule.window_ms is not None and now_ms - planned_ms > rule.window_ms:
        return rule.after(max(planned_ms, now_ms - rule.window_ms - 1))
    return planned_ms
