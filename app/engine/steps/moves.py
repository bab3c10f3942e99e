"""What commands do to the due time of a message, and to the plan of a series (docs/reference/recurring-messages.md).

All counts from the stamp of the command: a worker may read it much later. A pause and a resume leave the due time of an
occurrence as it is, so the row of a series knows two records: the one that has set the due time, and the one that holds
the series or has it go on.
"""

from typing import NamedTuple

import msgspec

from app.engine.steps import plan
from app.engine.steps.occurrences import due_of, is_as_planned, is_extra, timed
from app.engine.steps.plan import PAUSED_MS, HeldOccurrence, Passed, Plan, Rule
from app.engine.steps.series_rules import rule_of, with_rule
from tables import Command, Entry, RecordStamp, Series


class MovedOccurrence(NamedTuple):
    """When a message is due now, and what of its series is passed over for that; `over` if nothing is left to come."""

    due_ms: int
    entry: Entry
    passed: Passed | None = None
    over: bool = False


class _Released(NamedTuple):
    """A series that is not paused, and when its occurrence is due; all of `passed` is what it passes over."""

    due_ms: int
    series: Series
    passed: Passed | None = None
    over: bool = False


def moved(entry: Entry, due_ms: int, command: Command) -> MovedOccurrence:
    """Return what a command makes of a message that was to be due at `due_ms`."""
    series = entry.series
    if series is None:
        overdue = command.op == "deliver-now" and due_ms <= command.due_ms
        again = entry.moved is not None and entry.moved.stamp_ms == due_ms
        return MovedOccurrence(due_ms if overdue and not again else command.due_ms, entry)
    if is_before_hold(entry, command):
        return _moved_before_hold(entry, series, due_ms, command)
    if command.op == "pause":
        return MovedOccurrence(PAUSED_MS, _held(entry, series, due_ms, command))
    if command.op == "resume":
        return _resumed(entry, series, due_ms, command)
    if command.op == "deliver-now":
        return _run_now(entry, series, due_ms, command)
    return MovedOccurrence(command.due_ms, _having(entry, unheld(series)))


# commands that come late ---------------------------------------------------------------------------------------------
def is_before_hold(entry: Entry, command: Command) -> bool:
    """Return whether a command that comes late sets a due time that a later pause or resume has left as it was."""
    if entry.series is None or entry.moved is None or command.op not in ("reschedule", "deliver-now"):
        return False
    kept = rule_of(entry.series).kept
    if kept is None or not command.stamp.precedes(entry.moved):
        return False
    return (kept.stamp or entry.asked).precedes(command.stamp) and entry.asked.precedes(command.stamp)


def _moved_before_hold(entry: Entry, series: Series, due_ms: int, command: Command) -> MovedOccurrence:
    """Return a series as it is if a command is followed by the pause or the resume that has come before it."""
    assert entry.moved is not None, "nothing has held it"
    hold = Command("resume", entry.moved.source, stamp_ms=entry.moved.stamp_ms)
    if due_ms == PAUSED_MS:
        hold = msgspec.structs.replace(hold, op="pause", due_ms=PAUSED_MS)
    own = msgspec.structs.replace(entry, series=unheld(series), moved=timed(entry))
    found = moved(own, own_due(entry, series, due_ms), command)
    return moved(msgspec.structs.replace(found.entry, moved=command.stamp), found.due_ms, hold)


# pause and resume ----------------------------------------------------------------------------------------------------
def _held(entry: Entry, series: Series, due_ms: int, command: Command) -> Entry:
    """Return a series that is paused from a command on, or since the earlier time that this says.

    One that is paused already has been for longer.
    """
    rule = rule_of(series)
    if due_ms == PAUSED_MS and plan.held_since(rule) is not None:
        return entry
    own_ms = None if due_ms == PAUSED_MS or _is_planned(entry, series, due_ms) else due_ms
    rule = plan.hold(
        msgspec.structs.replace(rule, kept=HeldOccurrence(own_ms, timed(entry))), min(command.stamp_ms, command.due_ms)
    )
    return _having(entry, with_rule(series, rule, series.planned_ms, series.number))


def _resumed(entry: Entry, series: Series, due_ms: int, command: Command) -> MovedOccurrence:
    """Return a series that goes on; what was to be while it was paused is passed over."""
    found = _Released(due_ms, series)
    if due_ms == PAUSED_MS:
        found = _released(entry, series, command.stamp_ms)
    rule = msgspec.structs.replace(rule_of(found.series), kept=HeldOccurrence(None, timed(entry)))
    series = with_rule(found.series, rule, found.series.planned_ms, found.series.number)
    passed = _beside_first(rule, found.passed) if found.over else found.passed
    return MovedOccurrence(found.due_ms, _having(entry, series), passed, found.over)


def _released(entry: Entry, series: Series, stamp_ms: int) -> _Released:
    """Return a series that is not paused any more from `stamp_ms` on, and what it passes over.

    Due times decide: what was due when it was paused is still to come, and so is what is due after `stamp_ms`. One more
    occurrence than was planned is never passed over.
    """
    since_ms, due_ms, kept = plan.held_since(rule_of(series)), own_due(entry, series, PAUSED_MS), rule_of(series).kept
    series = unheld(series)
    if kept is None:  # by a worker before these, which kept the plan alone
        series = _planned(series)
        due_ms = due_of(rule_of(series), entry.id, series.planned_ms)
        since_ms = entry.moved.stamp_ms if since_ms is None and entry.moved is not None else since_ms
    if since_ms is None or max(since_ms, due_ms) > stamp_ms:
        return _Released(due_ms, series)
    if since_ms < due_ms and not is_extra(series):
        return _later(entry, series, stamp_ms)
    rule = rule_of(series)
    left = None if rule.count is None else max(0, rule.count - series.number)
    rest = Plan(rule, series.planned_ms, left)
    held = rest.due_by(entry.id, since_ms), rest.due_by(entry.id, stamp_ms)
    _, passed = rest.past(held[0], "paused")[0].past(held[1], "paused")
    rule = plan.less(msgspec.structs.replace(rule, held=(*rule.held, held)), 0 if passed is None else passed.number)
    return _Released(due_ms, with_rule(series, rule, series.planned_ms, series.number), passed)


def _later(entry: Entry, series: Series, stamp_ms: int) -> _Released:
    """Return a series whose occurrence goes on as the first one that is due after a time."""
    rule = rule_of(series)
    own = Plan(rule, series.planned_ms - 1, None if rule.count is None else max(1, rule.count - series.number + 1))
    rest, passed = own.past(max(series.planned_ms, own.due_by(entry.id, stamp_ms)), "paused")
    planned_ms = rest.first()
    if planned_ms is not None:
        rule = plan.less(rule, 0 if passed is None else passed.number)
        series = with_rule(series, rule, planned_ms, series.number)
        return _Released(due_of(rule, entry.id, planned_ms), series, passed)
    if rule.count is not None:
        series = with_rule(series, msgspec.structs.replace(rule, count=series.number), series.planned_ms, series.number)
    return _Released(due_of(rule, entry.id, series.planned_ms), series, passed, over=True)


def _beside_first(rule: Rule, passed: Passed | None) -> Passed | None:
    """Return what is passed over beside the first of these times, which ends as an occurrence."""
    first_ms = None if passed is None else plan.after(rule, passed.first_ms)
    if passed is None or first_ms is None or passed.number == 1:
        return None
    return passed._replace(first_ms=first_ms, number=passed.number - 1)


def own_due(entry: Entry, series: Series, due_ms: int) -> int:
    """Return when an occurrence is due beneath a pause."""
    rule = rule_of(series)
    if due_ms != PAUSED_MS:
        return due_ms
    if rule.kept is None or rule.kept.due_ms is None:
        return due_of(rule, entry.id, series.planned_ms)
    return rule.kept.due_ms


def _is_planned(entry: Entry, series: Series, due_ms: int) -> bool:
    """Return whether the plan says when an occurrence is due."""
    return not is_extra(series) and is_as_planned(series, entry.id, due_ms)


# deliver-now ---------------------------------------------------------------------------------------------------------
def _run_now(entry: Entry, series: Series, due_ms: int, command: Command) -> MovedOccurrence:
    """Return a series with one more occurrence before the one that is planned, or with one that is due already."""
    found, stamp = _Released(due_ms, unheld(series)), timed(entry)
    if due_ms == PAUSED_MS:
        found = _released(entry, series, command.stamp_ms)
    series, rule = found.series, rule_of(found.series)
    if found.over:  # one that nobody has planned
        series = with_rule(series, rule, command.due_ms, series.number)
    elif found.due_ms <= command.due_ms:
        again = _was_run_now(entry, series, found.due_ms, stamp, command)
        return MovedOccurrence(command.due_ms if again else found.due_ms, _having(entry, series), found.passed)
    elif not is_extra(series) and command.due_ms < due_of(rule, entry.id, series.planned_ms):
        series = with_rule(series, plan.less(rule, -1), series.planned_ms - 1, series.number)
    return MovedOccurrence(command.due_ms, _having(entry, series), found.passed)


def _was_run_now(entry: Entry, series: Series, due_ms: int, stamp: RecordStamp | None, command: Command) -> bool:
    """Return whether an occurrence is overdue for an order of the same kind alone: the last one counts.

    One more occurrence of a series stays before the one that is planned.
    """
    if stamp is None or stamp.stamp_ms != due_ms or not is_extra(series):
        return False
    planned_ms = rule_of(series).after(series.planned_ms)
    return planned_ms is not None and command.due_ms < due_of(rule_of(series), entry.id, planned_ms)


# the plan ------------------------------------------------------------------------------------------------------------
def unheld(series: Series) -> Series:
    """Return a series that is not paused, as if it never had been."""
    rule = rule_of(series)
    held = rule.held if plan.held_since(rule) is None else rule.held[:-1]
    return with_rule(series, msgspec.structs.replace(rule, held=held, kept=None), series.planned_ms, series.number)


def _planned(series: Series) -> Series:
    """Return a series whose occurrence is the one that is planned, instead of one more."""
    rule = rule_of(series)
    planned_ms = rule.after(series.planned_ms - 1)
    if planned_ms is None or planned_ms == series.planned_ms:
        return series
    return with_rule(series, plan.less(rule, 1), planned_ms, series.number)


def as_planned(series: Series) -> Series:
    """Return a series whose next occurrence is the one that is planned, and that is not paused."""
    return _planned(unheld(series))


def _having(entry: Entry, series: Series) -> Entry:
    return msgspec.structs.replace(entry, series=series)
