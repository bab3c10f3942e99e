"""A series that is requested again continues its schedule (docs/reference/recurring-messages.md).

Due and missed occurrences survive, and an interval counts from its former start.
"""

from typing import NamedTuple

import msgspec

from app.engine.steps import moves, occurrences, plan
from app.engine.steps.context import PartitionContext
from app.engine.steps.occurrences import Onward, due_of
from app.engine.steps.plan import PAUSED_MS, Passed, Rule
from app.engine.steps.series_rules import rule_of, with_rule
from app.engine.steps.step import Step
from app.engine.steps.transitions import move
from tables import Command, Entry, RecordStamp, Series, keys
from tables.entry import encode


class Resent(NamedTuple):
    """A series that continues: its next due time, its row, and the planned times that it skips.

    `unsent_ms` is the due time (epoch ms) of the occurrence that is being sent, should it turn out unsent; 0 if that
    occurrence is not to be delivered then.
    """

    due_ms: int
    series: Series
    passed: tuple[Passed, ...] = ()
    unsent_ms: int = 0


class SeriesRequest(NamedTuple):
    """A request for a series: its entry, its stamp, and whether it sets the time of the first occurrence."""

    entry: Entry
    stamp: RecordStamp
    says_when: bool


def continuation(request: SeriesRequest, row: bytes, before: Entry) -> Resent | None:
    """Return the due time and series with which a resent request continues the one in a row; None if it starts again.

    The row is not in flight.
    """
    state = _state(request, row, before)
    if state is None:
        return None
    due_ms, series, passed = state
    if _is_to_come(request, due_ms, series):
        return _next(request, series, before.series, passed)
    rule = _unless_planned_later(request, rule_of(series))
    if occurrences.is_extra(series):  # an extra occurrence does not count
        rule = plan.less(rule, -1)
    return Resent(due_ms, with_rule(series, rule, series.planned_ms, 1), passed)


def continuation_in_flight(request: SeriesRequest, row: bytes, before: Entry, now_ms: int, most: int) -> Resent | None:
    """Return how a request continues a series after the occurrence in flight in a row; None if it starts again.

    It catches up with at most `most` of the occurrences that were missed by `now_ms`.
    """
    state = _state(request, row, before)
    if state is None:
        return None
    due_ms, series, _ = state
    rule = _unless_planned_later(request, rule_of(series))
    sent = msgspec.structs.replace(before, series=with_rule(series, rule, series.planned_ms, 0))
    onward = occurrences.following(sent, row, now_ms, most)
    if onward.next is None or onward.next[1].series is None:
        return None
    if _is_to_come(request, due_ms, series):
        begin = _next(request, series, before.series, ())
        due_ms = 0 if begin is None or begin.series.planned_ms > series.planned_ms else begin.due_ms
    return Resent(onward.next[0], onward.next[1].series, onward.passed, due_ms)


def give_back(context: PartitionContext, step: Step, entry: Entry, by: Command) -> bool:
    """Let the series of command `by` deliver an occurrence that it has replaced and that was not sent, as an extra one.

    `by.due_ms` is the due time of the occurrence; 0 if it is not to be delivered. A series that a command has moved
    since then stays as it is. Return whether the message in `entry` recurs.
    """
    later_row = step.ids[entry.id] if entry.id in step.ids else context.store.find(entry.id)
    if entry.series is None or later_row is None or not by.due_ms:
        return entry.series is not None
    later = step.changes.entry(later_row) or context.claims.get(later_row) or context.store.entry(later_row)
    if later is None or (later.asked.source, later.moved) != (by.source, None):
        return True
    offset, crc = keys.suffix_of(later_row)
    due_ms = keys.due_of(context.free_key(step, later_row, by.due_ms))
    run = Command("deliver-now", by.source, due_ms, offset, crc, by.stamp_ms)
    if later_row not in context.claims and not later.commands:
        move(step, later_row, later, run)
        return True
    waiting = msgspec.structs.replace(later, commands=(*later.commands, run))
    step.changes.rewrite(later_row, waiting, encode(waiting, step.version))
    if later_row in context.claims:
        context.claims[later_row] = waiting
    return True


def with_given_back(entry: Entry, onward: Onward) -> Onward:
    """Return what follows an occurrence: after the last one, an occurrence that was given back while this was sent."""
    run = next((command for command in entry.commands if command.source == entry.asked.source), None)
    if run is None or onward.next is not None or entry.series is None:
        return onward
    rule, series = plan.less(rule_of(entry.series), -1), entry.series
    series = with_rule(series, rule, series.planned_ms, series.number + 1)
    again = msgspec.structs.replace(entry, series=series, commands=(), attempts=0, next_try_ms=None)
    return Onward(onward.passed, (run.due_ms, again))


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
    return due_ms, with_rule(series, held, series.planned_ms, series.number), () if passed is None else (passed,)


def _is_to_come(request: SeriesRequest, due_ms: int, series: Series) -> bool:
    """Return whether the occurrence of a series was neither due nor planned for a time before the request."""
    return request.stamp.stamp_ms < min(due_ms, series.planned_ms) and not occurrences.is_extra(series)


def _next(request: SeriesRequest, series: Series, before: Series | None, passed: tuple[Passed, ...]) -> Resent | None:
    """Return a series without due or planned occurrences: it starts at the requested time if that is in the future.

    It never repeats an occurrence that the series `before` is past: the request may have been read after the delivery,
    or stamped by a clock that is behind.
    """
    new = request.entry.series
    assert new is not None
    assert before is not None
    if request.says_when and new.planned_ms > request.stamp.stamp_ms and not _had(before, new.planned_ms):
        return Resent(due_of(rule_of(new), request.entry.id, new.planned_ms), new, passed)
    rule = rule_of(series)
    planned_ms = plan.after(rule, series.planned_ms - 1)
    if planned_ms is None:
        return None
    rule = plan.without_holds(rule, planned_ms)
    return Resent(due_of(rule, request.entry.id, planned_ms), with_rule(series, rule, planned_ms, 1), passed)


def _had(series: Series, planned_ms: int) -> bool:
    """Return whether a series is past the occurrence planned for `planned_ms`, of cron times by its number alone."""
    rule = rule_of(series)
    begun = series.number > 1 if rule.every_ms is None else rule.anchor_ms <= planned_ms
    return begun and planned_ms < series.planned_ms


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
    same_interval = new.every_ms is not None and new.every_ms == old.every_ms and not request.says_when
    return msgspec.structs.replace(new, anchor_ms=old.anchor_ms) if same_interval or _is_same(new, old) else None


def _is_same(one: Rule, other: Rule) -> bool:
    """Return whether two rules have the same times while both have begun and not ended."""
    if one.every_ms is None or other.every_ms is None:
        return (one.cron, one.zone, one.every_ms) == (other.cron, other.zone, other.every_ms)
    return one.every_ms == other.every_ms and (one.anchor_ms - other.anchor_ms) % one.every_ms == 0
