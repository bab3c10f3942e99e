"""A series that is requested again continues its schedule (docs/reference/recurring-messages.md).

Due and missed occurrences survive, and an interval counts from its former start.
"""

from typing import NamedTuple

import msgspec

from app.engine.steps import moves, occurrences, plan
from app.engine.steps.context import PartitionContext
from app.engine.steps.occurrences import due_of
from app.engine.steps.plan import PAUSED_MS, Passed, Rule
from app.engine.steps.series_rules import rule_of, with_rule
from app.engine.steps.step import Step
from app.engine.steps.transitions import ended
from tables import Command, Entry, RecordStamp, Series, keys
from tables.entry import encode


class Resent(NamedTuple):
    """A series that continues: its next due time, its row, and the planned times that it skips."""

    due_ms: int
    series: Series
    passed: tuple[Passed, ...] = ()


class SeriesRequest(NamedTuple):
    """A request for a series: its entry, its stamp, and whether it sets the time of the first occurrence."""

    entry: Entry
    stamp: RecordStamp
    says_when: bool


def goes_on(request: SeriesRequest, row: bytes, before: Entry) -> Resent | None:
    """Return how a request continues the series in a row that is not in flight; None if the series starts again."""
    found = _state(request, row, before)
    if found is None:
        return None
    due_ms, series, passed = found
    if request.stamp.stamp_ms < min(due_ms, series.planned_ms) and not occurrences.is_extra(series):
        return _next(request, series, passed)
    rule = _unless_planned_later(request, rule_of(series))
    return Resent(due_ms, with_rule(series, rule, series.planned_ms, 1), passed)


def goes_on_after(request: SeriesRequest, row: bytes, before: Entry, now_ms: int, most: int) -> Resent | None:
    """Return how a request continues a series after the occurrence in flight in a row; None if it starts again.

    It catches up with at most `most` of the occurrences that were missed by `now_ms`.
    """
    found = _state(request, row, before)
    if found is None:
        return None
    series = found[1]
    rule = _unless_planned_later(request, rule_of(series))
    sent = msgspec.structs.replace(before, series=with_rule(series, rule, series.planned_ms, 0))
    onward = occurrences.following(sent, row, now_ms, most)
    if onward.next is None or onward.next[1].series is None:
        return None
    return Resent(onward.next[0], onward.next[1].series, onward.passed)


def give_back(context: PartitionContext, step: Step, row: bytes, entry: Entry, by: Command) -> bool:
    """Let the series of command `by`, which has replaced the occurrence in a row, begin with it, as it was not sent.

    Return whether the message in the row recurs.
    """
    later_row = step.ids[entry.id] if entry.id in step.ids else context.store.find(entry.id)
    if entry.series is None or later_row is None or later_row in context.claims:
        return entry.series is not None
    later = step.changes.entry(later_row) or context.store.entry(later_row)
    series = None if later is None else later.series
    if later is None or series is None or (later.asked.source, later.commands, later.moved) != (by.source, (), None):
        return True
    due_ms, rule = keys.due_of(row), rule_of(series)
    first = series.number == 1 and due_ms < keys.due_of(later_row) and due_ms <= later.stamp_ms
    if first and _is_same(rule_of(entry.series), rule):
        series = with_rule(series, plan.less(rule, -1), entry.series.planned_ms, 1)
        step.remove(later_row, later)
        again = msgspec.structs.replace(later, series=series)
        key = context.free_key(step, later_row, due_ms)
        step.put(key, again, encode(again, step.version))
        ended(step, "rescheduled", keys.due_of(key), later, by=entry.source)
    return True


def _state(request: SeriesRequest, row: bytes, before: Entry) -> tuple[int, Series, tuple[Passed, ...]] | None:
    """Return a series by its new rule, as of the request: its due time, its state, and the planned times that it skips.

    None if the request has another schedule, or if the series had ended. Commands later than the request do not count,
    because they are applied to the new series too.
    """
    if before.series is None or request.entry.series is None:
        return None
    due_ms, series, passed = keys.due_of(row), before.series, None
    rule = _joined(request, rule_of(request.entry.series), rule_of(series))
    if rule is None:
        return None
    if before.moved is not None and request.stamp.precedes(before.moved):
        own = occurrences.timed(before)
        due_ms, series = moves.own_due(before, series, due_ms), moves.unheld(series)
        if own is not None and request.stamp.precedes(own):
            series = moves.as_planned(series)
            due_ms = due_of(rule_of(series), before.id, series.planned_ms)
    elif due_ms == PAUSED_MS:
        resume = Command("resume", request.stamp.source, stamp_ms=request.stamp.stamp_ms)
        due_ms, resumed, passed, over = moves.moved(before, due_ms, resume)
        if over or resumed.series is None:
            return None
        series = resumed.series
    held = msgspec.structs.replace(rule, held=rule_of(series).held)
    if due_ms > request.stamp.stamp_ms and occurrences.is_as_planned(series, before.id, due_ms):
        due_ms = due_of(held, before.id, series.planned_ms)  # by the jitter of the request
    if occurrences.is_extra(series):  # an extra occurrence does not count
        held = plan.less(held, -1)
    return due_ms, with_rule(series, held, series.planned_ms, series.number), () if passed is None else (passed,)


def _next(request: SeriesRequest, series: Series, passed: tuple[Passed, ...]) -> Resent | None:
    """Return a series without due or planned occurrences: it starts at the requested time if that is in the future."""
    new = request.entry.series
    assert new is not None
    if request.says_when and new.planned_ms > request.stamp.stamp_ms:
        return Resent(due_of(rule_of(new), request.entry.id, new.planned_ms), new, passed)
    rule = rule_of(series)
    planned_ms = plan.after(rule, series.planned_ms - 1)
    if planned_ms is None:
        return None
    rule = plan.without_holds(rule, planned_ms)
    return Resent(due_of(rule, request.entry.id, planned_ms), with_rule(series, rule, planned_ms, 1), passed)


def _unless_planned_later(request: SeriesRequest, rule: Rule) -> Rule:
    """Return a rule without planned times from the stamp of a request to its first time, if that is later."""
    series, stamp_ms = request.entry.series, request.stamp.stamp_ms
    assert series is not None
    until_ms = series.planned_ms - 1
    if not request.says_when or until_ms <= stamp_ms or not plan.between(rule, stamp_ms, until_ms):
        return rule
    return msgspec.structs.replace(rule, held=(*rule.held, (stamp_ms, until_ms)))


def _joined(request: SeriesRequest, new: Rule, old: Rule) -> Rule | None:
    """Return the new rule with the times of the old one, None if their schedules differ."""
    goes_on = new.every_ms is not None and new.every_ms == old.every_ms and not request.says_when
    return msgspec.structs.replace(new, anchor_ms=old.anchor_ms) if goes_on or _is_same(new, old) else None


def _is_same(one: Rule, other: Rule) -> bool:
    """Return whether two rules have the same times while both have begun and not ended."""
    if one.every_ms is None or other.every_ms is None:
        return (one.cron, one.zone, one.every_ms) == (other.cron, other.zone, other.every_ms)
    return one.every_ms == other.every_ms and (one.anchor_ms - other.anchor_ms) % one.every_ms == 0
