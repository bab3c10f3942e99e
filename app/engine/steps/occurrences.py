"""Occurrences of recurring messages: which comes next, and its message (docs/reference/recurring-messages.md).

The row of a series is its next occurrence. The step that ends an occurrence also adds the following one.
"""

from typing import Final, NamedTuple

import msgspec

from app.engine.steps import plan
from app.engine.steps.plan import PAUSED_MS, Passed, Plan
from app.engine.steps.series_rules import is_between, planned_here, rule_of, with_rule
from punctual.contract.recurrence import SHORTEST_MS, Recurrence
from tables import Command, Entry, RecordStamp, Series, keys
from tables.commands import OF_SERIES, Operation

#: Times are counted this far after the pending occurrence to find a series' end; a century takes milliseconds.
_COUNTED_MS: Final = 10 * 365 * 86_400_000
#: Maximum number of planned times that are tried to find the one whose jitter gives a due time.
_LOOKS: Final = 100
#: Maximum occurrences to catch up with: a schedule since 1970 would otherwise cause over a billion deliveries.
MOST_MISSED: Final = 10_000


def due_of(rule: Recurrence, id_: str, planned_ms: int) -> int:
    """Return the due time of an occurrence that is planned at `planned_ms`: jitter can make it later."""
    return rule.due(id_, planned_ms)


def is_as_planned(series: Series, id_: str, due_ms: int) -> bool:
    """Return whether an occurrence is due as planned, and was not moved."""
    return due_ms == due_of(rule_of(series), id_, series.planned_ms)


def number_of(entry: Entry) -> int | None:
    """Return the number of a row's occurrence for its events; None for the first one and outside a series."""
    series = entry.series
    return None if series is None or series.number == 1 else series.number


def occurrence(entry: Entry, due_ms: int) -> Entry:
    """Return the message to deliver for a row; that of a series has an id of its own and does not recur."""
    if entry.series is None:
        return entry
    return msgspec.structs.replace(entry, id=f"{entry.id}@{due_ms}", series=None)


def source_of(entry: Entry, due_ms: int) -> str:
    """Return the name that identifies a delivery or callback: the source, and for an occurrence its due time."""
    return entry.source if entry.series is None else f"{entry.source}@{due_ms}"


def allows(entry: Entry, op: str) -> bool:
    """Return whether a command can apply to a message: only series can be paused and resumed."""
    return entry.series is not None or op not in OF_SERIES


def is_meant(entry: Entry, due_ms: int, command: Command) -> bool:
    """Return whether a command applies to a message that is due at `due_ms`, by its `if_due_ms`.

    The occurrence of a series changes by itself, so any time of its rule matches.
    """
    wanted_ms, series = command.if_due_ms, entry.series
    if wanted_ms is None or wanted_ms == due_ms:
        return True
    if series is None or wanted_ms == PAUSED_MS:
        return series is not None
    planned_ms = _planned_for(rule_of(series), entry.id, wanted_ms)
    return planned_ms is not None and not _is_after_end(series, planned_ms)


def is_missed(entry: Entry, row: bytes, now_ms: int) -> bool:
    """Return whether an occurrence must not be delivered any more: it is too late, or a later one is due."""
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
    """How a series continues after an occurrence: the planned times that it skips, and the next due time and entry.

    Without a next occurrence the series has ended.
    """

    passed: tuple[Passed, ...] = ()
    next: tuple[int, Entry] | None = None


def following(entry: Entry, row: bytes, now_ms: int, most: int) -> Onward:
    """Return how a series continues after the occurrence in a row.

    The policy for missed occurrences chooses among the last `most` times planned by `now_ms`.
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
    """Return the stamp of the record that set the due time of a row's occurrence, ignoring a pause or resume."""
    kept = None if entry.series is None else rule_of(entry.series).kept
    return entry.moved if kept is None else kept.stamp


def movers(entry: Entry, row: bytes) -> tuple[Command, ...]:
    """Return, in order, the commands that have moved the message in a row, for an older request that arrives late.

    They are reconstructed from the row. If an occurrence of a moved series is due as planned, the series was resumed or
    an earlier occurrence was moved; neither changes a message that does not recur.
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
    """Return whether the pending occurrence is an extra one."""
    rule = rule_of(series)
    if rule.offset_s is not None:  # other rules of its zone may have planned it
        return is_between(series)
    return rule.after(series.planned_ms - 1) != series.planned_ms


def _planned_for(rule: Recurrence, id_: str, due_ms: int) -> int | None:
    """Return the planned time of the occurrence that is due, or planned, at `due_ms`; None if there is none."""
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
    """Return whether a planned time comes after the last occurrence of a series, by its count.

    Also False if the last occurrence is over ten years away, so that the cost of a command does not grow with its time.
    """
    rule = rule_of(series)
    if rule.count is None or planned_ms <= series.planned_ms:
        return False
    left = max(0, rule.count - series.number)
    to_ms = min(planned_ms, series.planned_ms + _COUNTED_MS)
    return plan.between(rule, series.planned_ms, to_ms, left + 1) > left


def _rest(series: Series, due_ms: int) -> tuple[Plan, Passed | None]:
    """Return the plan after an occurrence, and the times that it skips because the occurrence was postponed."""
    rule = rule_of(series)
    left = None if rule.count is None else max(0, rule.count - series.number)
    # An occurrence sent by other rules of its zone has used its local time, which this worker's rules may plan later.
    here_ms = None if rule.offset_s is None else planned_here(series)
    rest = Plan(rule, max(series.planned_ms, here_ms or 0), left)
    return rest.past(due_ms, "moved") if _is_put_off(series, due_ms) else (rest, None)


def _is_put_off(series: Series, due_ms: int) -> bool:
    """Return whether an occurrence is due after the planned time that it stands for or precedes, plus jitter."""
    if due_ms <= series.planned_ms:
        return False
    rule, extra = rule_of(series), is_extra(series)
    planned_ms = rule.after(series.planned_ms) if extra else series.planned_ms
    return planned_ms is None or due_ms > planned_ms + rule.jitter_at(planned_ms) - extra


def _chosen(rest: Plan, now_ms: int, most: int) -> tuple[int | None, Passed | None]:
    """Return the planned time of the next occurrence that is not known to be missed by `now_ms`, and the skipped times.

    If every time is missed, the last one is next and will be dropped. So the number of occurrences does not depend on
    when the series is checked, and a step that is repeated after a crash decides the same.
    """
    rule, planned_ms = rest.rule, rest.first()
    if planned_ms is None or planned_ms > now_ms:
        return planned_ms, None
    if rule.misfire == "catch-up-last":
        planned_ms = rest.last(now_ms) or planned_ms
    elif now_ms - planned_ms > most * SHORTEST_MS:  # a series has no more times in a shorter period
        planned_ms = rest.latest(now_ms, most).first() or planned_ms
    if rule.window_ms is not None and now_ms - planned_ms > rule.window_ms:
        late, _ = rest.past(max(planned_ms, now_ms - rule.window_ms - 1), "missed")
        planned_ms = late.first() or rest.last(now_ms) or planned_ms
    return planned_ms, rest.past(planned_ms - 1, "missed")[1]
