"""What commands do to the due time of a message, and to the plan of a series (records.md#recurring-messages).

All counts from the stamp of the command: a worker may read it much later.
"""

from typing import NamedTuple

import msgspec

from app.steps import plan
from app.steps.occurrences import due_of, rule_of, with_rule
from app.steps.plan import PAUSED_MS, Passed, Plan, Rule
from tables import Command, Entry, Series


class Moved(NamedTuple):
    """When a message is due now, and what of its series is passed over for that; `over` if nothing is left to come."""

    due_ms: int
    entry: Entry
    passed: Passed | None = None
    over: bool = False


class _Released(NamedTuple):
    series: Series
    passed: Passed | None
    over: bool


def moved(entry: Entry, due_ms: int, command: Command) -> Moved:
    """Return what a command makes of a message that was to be due at `due_ms`."""
    series = entry.series
    if command.op == "deliver-now" and due_ms <= command.due_ms:
        return Moved(command.due_ms if _was_run_now(entry, due_ms, command) else due_ms, entry)
    if series is None:
        return Moved(command.due_ms, entry)
    if command.op == "pause":
        return Moved(PAUSED_MS, _held(entry, series, due_ms, command))
    if command.op == "resume":
        return _resumed(entry, series, due_ms, command)
    if command.op == "deliver-now":
        return _run_now(entry, series, due_ms, command)
    return Moved(command.due_ms, _having(entry, _unheld(series)))


def _was_run_now(entry: Entry, due_ms: int, command: Command) -> bool:
    """Return whether a message is overdue for an order of the same kind alone: the last one counts.

    One more occurrence of a series stays before the one that is planned.
    """
    if entry.moved is None or entry.moved.stamp_ms != due_ms:
        return False
    return entry.series is None or (is_extra(entry.series) and command.due_ms <= entry.series.planned_ms)


def _held(entry: Entry, series: Series, due_ms: int, command: Command) -> Entry:
    """Return a series that is paused from a command on; one that is paused already has been for longer."""
    rule = rule_of(series)
    if due_ms == PAUSED_MS and plan.held_since(rule) is not None:
        return entry
    # One that was put off was not due yet: it is held too.
    since_ms = command.stamp_ms if due_ms <= command.stamp_ms else min(command.stamp_ms, series.planned_ms - 1)
    held = plan.hold(rule, since_ms)
    return _having(entry, with_rule(series, held, series.planned_ms, series.number))


def _resumed(entry: Entry, series: Series, due_ms: int, command: Command) -> Moved:
    """Return a series that goes on as planned; what was to be while it was paused is passed over."""
    released = _released(entry, series, due_ms, command.stamp_ms)
    series = released.series
    due_ms = due_of(rule_of(series), entry.id, series.planned_ms)
    return Moved(due_ms, _having(entry, series), released.passed, released.over)


def _run_now(entry: Entry, series: Series, due_ms: int, command: Command) -> Moved:
    """Return a series with one more occurrence before the one that is planned, or with one that is due already."""
    passed = None
    if due_ms == PAUSED_MS:
        released = _released(entry, series, due_ms, command.stamp_ms)
        series, passed = released.series, released.passed
        planned_due_ms = due_of(rule_of(series), entry.id, series.planned_ms)
        if released.over:  # one that nobody has planned
            series = with_rule(series, rule_of(series), command.due_ms, series.number)
        elif planned_due_ms <= command.due_ms:
            return Moved(planned_due_ms, _having(entry, series), passed)
    if command.due_ms < series.planned_ms and not is_extra(series):
        rule = plan.less(rule_of(series), -1)
        series = with_rule(series, rule, series.planned_ms - 1, series.number)
    return Moved(command.due_ms, _having(entry, series), passed)


def _released(entry: Entry, series: Series, due_ms: int, stamp_ms: int) -> _Released:
    """Return a series that is not paused any more from `stamp_ms` on, and what it passes over.

    What was due when it was paused is still to come. So is what was planned since, where nothing was paused.
    """
    since_ms = plan.held_since(rule_of(series))
    series = as_planned(series)
    rule = rule_of(series)
    if since_ms is None and due_ms == PAUSED_MS and entry.moved is not None:  # by a worker before these
        since_ms = entry.moved.stamp_ms
    if since_ms is None or stamp_ms <= since_ms:
        return _Released(with_rule(series, rule, series.planned_ms, series.number), None, over=False)
    own = Plan(rule, series.planned_ms - 1, _left(rule, series))
    if series.planned_ms <= since_ms:
        _, passed = own.past(since_ms, "paused")[0].past(stamp_ms, "paused")
        rule = plan.less(rule, 0 if passed is None else passed.number)
        rule = msgspec.structs.replace(rule, held=(*rule.held, (since_ms, stamp_ms)))
        return _Released(with_rule(series, rule, series.planned_ms, series.number), passed, over=False)
    return _later(series, own, stamp_ms)


def _later(series: Series, own: Plan, stamp_ms: int) -> _Released:
    """Return a series whose occurrence goes on as the first one that is planned after a time."""
    rest, passed = own.past(stamp_ms, "paused")
    planned_ms = rest.first()
    if planned_ms is not None:
        rule = plan.less(own.rule, 0 if passed is None else passed.number)
        return _Released(with_rule(series, rule, planned_ms, series.number), passed, over=False)
    # The occurrence itself is the first of those that have no time any more; the rest never begins.
    if passed is not None:
        _, passed = Plan(own.rule, passed.first_ms, passed.number - 1).past(stamp_ms, "paused")
    rule = own.rule if own.rule.count is None else msgspec.structs.replace(own.rule, count=series.number)
    return _Released(with_rule(series, rule, series.planned_ms, series.number), passed, over=True)


def _left(rule: Rule, series: Series) -> int | None:
    """Return how many occurrences a series has before it, the one that waits included."""
    return None if rule.count is None else max(1, rule.count - series.number + 1)


def _unheld(series: Series) -> Series:
    """Return a series that is not paused, as if it never had been."""
    rule = rule_of(series)
    if plan.held_since(rule) is None:
        return series
    return with_rule(series, msgspec.structs.replace(rule, held=rule.held[:-1]), series.planned_ms, series.number)


def _planned(series: Series) -> Series:
    """Return a series whose occurrence is the one that is planned, instead of one more."""
    rule = rule_of(series)
    planned_ms = rule.after(series.planned_ms - 1)
    if planned_ms is None or planned_ms == series.planned_ms:
        return series
    return with_rule(series, plan.less(rule, 1), planned_ms, series.number)


def as_planned(series: Series) -> Series:
    """Return a series whose next occurrence is the one that is planned, and that is not paused."""
    return _planned(_unheld(series))


def is_extra(series: Series) -> bool:
    """Return whether the occurrence that waits is one more than was planned."""
    return rule_of(series).after(series.planned_ms - 1) != series.planned_ms


def _having(entry: Entry, series: Series) -> Entry:
    return msgspec.structs.replace(entry, series=series)
