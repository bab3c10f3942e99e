"""Occurrences of recurring messages: which comes next, and what each looks like (docs/reference/recurring-messages.md).

The row of a series is its next occurrence. Whatever ends that puts the one after it in the same step.
"""

from typing import Final, NamedTuple

import msgspec

from app.engine.steps import plan
from app.engine.steps.plan import PAUSED_MS, Passed, Plan
from app.engine.steps.series_rules import is_between, planned_here, rule_of, with_rule
from punctual.contract.recurrence import SHORTEST_MS, Recurrence
from tables import Command, Entry, RecordStamp, Series, keys
from tables.commands import OF_SERIES, Operation

#: For so long after the occurrence that waits it is counted whether a series has ended: a century takes milliseconds.
_COUNTED_MS: Final = 10 * 365 * 86_400_000
#: So many planned times are looked at for one whose jitter makes it due at a time.
_LOOKS: Final = 100
#: A series catches up with no more: one request with a schedule from 1970 would ask for more than a billion deliveries.
MOST_MISSED: Final = 10_000


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


def is_meant(entry: Entry, due_ms: int, command: Command) -> bool:
    """Return whether a command is for a message that is due then, as far as its `if_due_ms` tells.

    The occurrence of a series changes by itself, so any time of its rule will do, whichever occurrence had it.
    """
    wanted_ms, series = command.if_due_ms, entry.series
    if wanted_ms is None or wanted_ms == due_ms:
        return True
    if series is None or wanted_ms == PAUSED_MS:
        return series is not None
    planned_ms = _planned_for(rule_of(series), entry.id, wanted_ms)
    return planned_ms is not None and not _is_after_end(series, planned_ms)


def is_missed(entry: Entry, row: bytes, now_ms: int) -> bool:
    """Return whether an occurrence is not to be delivered any more: too late, or a later one has taken its place."""
    series = entry.series
    if series is None:
        return False
    rule, due_ms = rule_of(series), keys.due_of(row)
    if rule.window_ms is not None and now_ms - due_ms > rule.window_ms:
        return True
    if rule.misfire != "catch-up-last" or now_ms <= due_ms:
        return False
    following_ms = _rest(series, due_ms)[0].first()
    return following_ms is not None and due_of(rule, entry.id, following_ms) <= now_ms


class Onward(NamedTuple):
    """How a series goes on after an occurrence: planned times that it passes over, and when the next one is due.

    Without the latter it is over.
    """

    passed: tuple[Passed, ...] = ()
    next: tuple[int, Entry] | None = None


def following(entry: Entry, row: bytes, now_ms: int, most: int) -> Onward:
    """Return what comes after the occurrence in a row.

    Of the occurrences that are planned by `now_ms` the policy for what was missed chooses, the last `most` of them at
    the most.
    """
    series = entry.series
    assert series is not None, "it does not recur"
    rest, moved_over = _rest(series, keys.due_of(row))
    planned_ms, missed = _chosen(rest, now_ms, most)
    passed = tuple(one for one in (moved_over, missed) if one is not None)
    if planned_ms is None:
        return Onward(passed)
    rule = plan.less(msgspec.structs.replace(rest.rule, kept=None), sum(one.number for one in passed))
    new = with_rule(series, plan.without_holds(rule, planned_ms), planned_ms, series.number + 1)
    due_ms = due_of(rule, entry.id, planned_ms)
    return Onward(
        passed, (due_ms, msgspec.structs.replace(entry, series=new, commands=(), attempts=0, next_try_ms=None))
    )


def timed(entry: Entry) -> RecordStamp | None:
    """Return the stamp of the record that set the due time of a row's occurrence, beneath a pause or a resume."""
    kept = None if entry.series is None else rule_of(entry.series).kept
    return entry.moved if kept is None else kept.stamp


def movers(entry: Entry, row: bytes) -> tuple[Command, ...]:
    """Return the commands that have moved the message in a row, in their order, for an older request that comes late.

    The row knows when they were given, and what has come of them. An occurrence that is due as planned was moved by
    what a message that does not recur has nothing of: the series was resumed, or it is an earlier one that was moved.
    """
    if entry.moved is None:
        return ()
    due_ms, series = entry.asked_due(row), entry.series
    if series is None:
        return (_command("reschedule", entry.moved, due_ms),)
    kept, as_planned = rule_of(series).kept, is_as_planned(series, entry.id, due_ms)
    op: Operation = "deliver-now" if is_extra(series) else "reschedule"
    if kept is None and due_ms != PAUSED_MS and not as_planned:
        return (_command(op, entry.moved, due_ms),)
    hold = _command("pause" if due_ms == PAUSED_MS else "resume", entry.moved, due_ms)
    own_ms = due_ms if due_ms != PAUSED_MS else None if kept is None else kept.due_ms
    if kept is None or kept.stamp is None or own_ms is None or as_planned:
        return (hold,)
    return _command(op, kept.stamp, own_ms), hold


def _command(op: Operation, stamp: RecordStamp, due_ms: int) -> Command:
    return Command(op, stamp.source, due_ms, stamp_ms=stamp.stamp_ms)


def is_extra(series: Series) -> bool:
    """Return whether the occurrence that waits is one more than was planned."""
    rule = rule_of(series)
    if rule.offset_s is not None:  # other rules of its zone may have planned it
        return is_between(series)
    return rule.after(series.planned_ms - 1) != series.planned_ms


def _planned_for(rule: Recurrence, id_: str, due_ms: int) -> int | None:
    """Return when an occurrence of a rule is planned that is due then, or planned then; None if there is none."""
    if rule.after(due_ms - 1) == due_ms:
        return due_ms
    since_ms = due_ms - (rule.jitter_ms or 0)
    for _ in range(_LOOKS if rule.jitter_ms else 0):
        planned_ms = rule.after(since_ms - 1)
        if planned_ms is None or planned_ms > due_ms:
            return None
        if due_of(rule, id_, planned_ms) == due_ms:
            return planned_ms
        since_ms = planned_ms + 1
    return None


def _is_after_end(series: Series, planned_ms: int) -> bool:
    """Return whether the rule of a series plans a time that comes after its last occurrence, by its count.

    False as well if the last one is not within ten years: a command must not cost more the further ahead its time is.
    """
    rule = rule_of(series)
    if rule.count is None or planned_ms <= series.planned_ms:
        return False
    left = max(0, rule.count - series.number)
    to_ms = min(planned_ms, series.planned_ms + _COUNTED_MS)
    return plan.between(rule, series.planned_ms, to_ms, left + 1) > left


def _rest(series: Series, due_ms: int) -> tuple[Plan, Passed | None]:
    """Return what is planned after an occurrence: one that was put off takes the place of others."""
    rule = rule_of(series)
    left = None if rule.count is None else max(0, rule.count - series.number)
    # One that was sent by other rules of its zone has used up its local time, which these may plan later.
    here_ms = None if rule.offset_s is None else planned_here(series)
    rest = Plan(rule, max(series.planned_ms, here_ms or 0), left)
    return rest.past(due_ms, "moved") if _is_put_off(series, due_ms) else (rest, None)


def _is_put_off(series: Series, due_ms: int) -> bool:
    """Return whether an occurrence is due later than jitter makes the planned one, which an extra one comes before."""
    if due_ms <= series.planned_ms:
        return False
    rule, extra = rule_of(series), is_extra(series)
    planned_ms = rule.after(series.planned_ms) if extra else series.planned_ms
    return planned_ms is None or due_ms > planned_ms + rule.jitter_at(planned_ms) - extra


def _chosen(rest: Plan, now_ms: int, most: int) -> tuple[int | None, Passed | None]:
    """Return when the next occurrence is planned of which it is not known by `now_ms` that it is missed.

    And what is passed over before it. Of a series that has no such time the last one is next, and will be dropped: how
    many occurrences a series has does not depend on when it is looked at, and what is done again after a crash is the
    same.
    """
    rule, planned_ms = rest.rule, rest.first()
    if planned_ms is None or planned_ms > now_ms:
        return planned_ms, None
    if rule.misfire == "catch-up-last":
        planned_ms = rest.last(now_ms) or planned_ms
    elif now_ms - planned_ms > most * SHORTEST_MS:  # no series has more of them in less
        planned_ms = rest.latest(now_ms, most).first() or planned_ms
    if rule.window_ms is not None and now_ms - planned_ms > rule.window_ms:
        late, _ = rest.past(max(planned_ms, now_ms - rule.window_ms - 1), "missed")
        planned_ms = late.first() or rest.last(now_ms) or planned_ms
    return planned_ms, rest.past(planned_ms - 1, "missed")[1]
