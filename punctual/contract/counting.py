"""Counts the times of a series in a range, at a cost that does not grow with their number."""

from typing import Final

from punctual.contract import cron
from punctual.contract.recurrence import Recurrence
from punctual.contract.zones import UTC

#: More than any range has: one per second, up to the year 9999.
MOST: Final = 1 << 40


def planned_between(rule: Recurrence, after_ms: int, to_ms: int, most: int | None = None) -> int:
    """Return the number of planned times after `after_ms` up to `to_ms`, at most `most`."""
    most = MOST if most is None else most
    if rule.until_ms is not None:
        to_ms = min(to_ms, rule.until_ms)
    if to_ms <= after_ms or most <= 0:
        return 0
    if rule.cron is not None:
        return min(most, cron.schedule(rule.cron, rule.zone or UTC).number(after_ms // 1_000, to_ms // 1_000))
    assert rule.every_ms is not None
    before, there = (max(-1, (ms - rule.anchor_ms) // rule.every_ms) for ms in (after_ms, to_ms))
    return min(there - before, most)


def nth_after(rule: Recurrence, after_ms: int, number: int, to_ms: int) -> int | None:
    """Return the planned time with this number after `after_ms`, counted from 1; None if it is after `to_ms`."""
    if rule.every_ms is not None:
        first_ms = rule.after(after_ms)
        at_ms = None if first_ms is None else rule.after(first_ms - 1 + (number - 1) * rule.every_ms)
        return None if at_ms is None or at_ms > to_ms else at_ms
    if planned_between(rule, after_ms, to_ms, number) < number:
        return None
    low, high = after_ms // 1_000, to_ms // 1_000
    while high - low > 1:  # each step counts half of the rest
        middle = (low + high) // 2
        there = planned_between(rule, low * 1_000, middle * 1_000, number)
        if there < number:
            low, number = middle, number - there
        else:
            high = middle
    return high * 1_000
