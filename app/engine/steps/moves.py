"""Effects of commands on the due time of a message, and on the plan of a series (recurring-messages.md).

Effects count from the stamp of the command, because a worker may read it much later. A pause and a resume keep the due
time of an occurrence. So the row of a series knows two records: the one that set the due time, and the last pause or
resume.
"""

from typing import NamedTuple

import msgspec

from app.engine.steps import plan
from app.engine.steps.occurrences import due_of, is_as_planned, is_extra, timed
from app.engine.steps.plan import PAUSED_MS, HeldOccurrence, Passed, Plan, Rule
from app.engine.steps.series_rules import rule_of, with_rule
from tables import Command, Entry, RecordStamp, Series


class MovedOccurrence(NamedTuple):
    """A message's new due time and entry, the planned times that it skips, and whether its series is `over`."""

    due_ms: int
    entry: Entry
    passed: Passed | None = None
    over: bool = False


class _Released(NamedTuple):
    """A series that is not paused, the due time of its occurrence, and all the planned times that it skips."""

    due_ms: int
    series: Series
    passed: Passed | None = None
    over: bool = False


def moved(entry: Entry, due_ms: int, command: Command) -> MovedOccurrence:
    """Return the effect of a command on a message that was due at `due_ms`."""
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


# late commands -------------------------------------------------------------------------------------------------------
def is_before_hold(entry: Entry, command: Command) -> bool:
    """Return whether a late command sets the due time that a newer pause or resume, already applied, has kept."""
    if entry.series is None or entry.moved is None or command.op not in ("reschedule", "deliver-now"):
        return False
    kept = rule_of(entry.series).kept
    if kept is None or not command.stamp.precedes(entry.moved):
        return False
    return (kept.stamp or entry.asked).precedes(command.stamp) and entry.asked.precedes(command.stamp)


def _moved_before_hold(entry: Entry, series: Series, due_ms: int, command: Command) -> MovedOccurrence:
    """Return a series as if a late command had been applied before the pause or resume that arrived earlier."""
    assert entry.moved is not None, "nothing has held it"
    hold = Command("resume", entry.moved.source, stamp_ms=entry.moved.stamp_ms)
    if due_ms == PAUSED_MS:
        hold = msgspec.structs.replace(hold, op="pause", due_ms=PAUSED_MS)
    own = msgspec.structs.replace(entry, series=unheld(series), moved=timed(entry))
    move = moved(own, own_due(entry, series, due_ms), command)
    return moved(msgspec.structs.replace(move.entry, moved=command.stamp), move.due_ms, hold)


# pause and resume ----------------------------------------------------------------------------------------------------
def _held(entry: Entry, series: Series, due_ms: int, command: Command) -> Entry:
    """Return a series that is paused from a command's stamp on, or from the earlier time in the command.

    A series that is already paused stays as it is.
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
    """Return a series that continues; the occurrences planned during the pause are skipped."""
    released = _Released(due_ms, series)
    if due_ms == PAUSED_MS:
        released = _released(entry, series, command.stamp_ms)
    rule = msgspec.structs.replace(rule_of(released.series), kept=HeldOccurrence(None, timed(entry)))
    series = with_rule(released.series, rule, released.series.planned_ms, released.series.number)
    passed = _beside_first(rule, released.passed) if released.over else released.passed
    return MovedOccurrence(released.due_ms, _having(entry, series), passed, released.over)


def _released(entry: Entry, series: Series, stamp_ms: int) -> _Released:
    """Return a series that is no longer paused from `stamp_ms` on, and the times that it skips.

    Due times decide: occurrences that were due when the pause began, and those due after `stamp_ms`, are delivered. An
    extra occurrence is never skipped.
    """
    since_ms, due_ms, kept = plan.held_since(rule_of(series)), own_due(entry, series, PAUSED_MS), rule_of(series).kept
    series = unheld(series)
    if kept is None:  # paused by an older worker, which kept only the plan
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
    """Return a series whose next occurrence is the first that is due after `stamp_ms`."""
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
    """Return the skipped times without the first one, which ends as an occurrence."""
    first_ms = None if passed is None else plan.after(rule, passed.first_ms)
    if passed is None or first_ms is None or passed.number == 1:
        return None
    return passed._replace(first_ms=first_ms, number=passed.number - 1)


def own_due(entry: Entry, series: Series, due_ms: int) -> int:
    """Return the due time that an occurrence has without its pause."""
    rule = rule_of(series)
    if due_ms != PAUSED_MS:
        return due_ms
    if rule.kept is None or rule.kept.due_ms is None:
        return due_of(rule, entry.id, series.planned_ms)
    return rule.kept.due_ms


def _is_planned(entry: Entry, series: Series, due_ms: int) -> bool:
    """Return whether an occurrence is due as planned, not moved or extra."""
    return not is_extra(series) and is_as_planned(series, entry.id, due_ms)


# deliver-now ---------------------------------------------------------------------------------------------------------
def _run_now(entry: Entry, series: Series, due_ms: int, command: Command) -> MovedOccurrence:
    """Return a series with an extra occurrence before the planned one, unless its occurrence is already due."""
    released, stamp = _Released(due_ms, unheld(series)), timed(entry)
    if due_ms == PAUSED_MS:
        released = _released(entry, series, command.stamp_ms)
    series, rule = released.series, rule_of(released.series)
    if released.over:  # the extra occurrence is not in the plan
        series = with_rule(series, rule, command.due_ms, series.number)
    elif released.due_ms <= command.due_ms:
        again = _was_run_now(entry, series, released.due_ms, stamp, command)
        return MovedOccurrence(command.due_ms if again else released.due_ms, _having(entry, series), released.passed)
    elif not is_extra(series) and command.due_ms < due_of(rule, entry.id, series.planned_ms):
        series = with_rule(series, plan.less(rule, -1), series.planned_ms - 1, series.number)
    return MovedOccurrence(command.due_ms, _having(entry, series), released.passed)


def _was_run_now(entry: Entry, series: Series, due_ms: int, stamp: RecordStamp | None, command: Command) -> bool:
    """Return whether an extra occurrence is overdue only because of an earlier deliver-now: then the last one counts.

    The extra occurrence must stay before the planned one.
    """
    if stamp is None or stamp.stamp_ms != due_ms or not is_extra(series):
        return False
    planned_ms = rule_of(series).after(series.planned_ms)
    return planned_ms is not None and command.due_ms < due_of(rule_of(series), entry.id, planned_ms)


# the plan ------------------------------------------------------------------------------------------------------------
def unheld(series: Series) -> Series:
    """Return a series that is not paused, as if it had never been."""
    rule = rule_of(series)
    held = rule.held if plan.held_since(rule) is None else rule.held[:-1]
    return with_rule(series, msgspec.structs.replace(rule, held=held, kept=None), series.planned_ms, series.number)


def _planned(series: Series) -> Series:
    """Return a series whose occurrence is the planned one instead of an extra one."""
    rule = rule_of(series)
    planned_ms = rule.after(series.planned_ms - 1)
    if planned_ms is None or planned_ms == series.planned_ms:
        return series
    return with_rule(series, plan.less(rule, 1), planned_ms, series.number)


def as_planned(series: Series) -> Series:
    """Return a series that is not paused and whose next occurrence is the planned one."""
    return _planned(unheld(series))


def _having(entry: Entry, series: Series) -> Entry:
    return msgspec.structs.replace(entry, series=series)
