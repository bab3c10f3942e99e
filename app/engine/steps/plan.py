"""The remaining planned times of a series: the times after a moment that its rule plans, within its count.

`delay-count` counts planned times, delivered or not, and occurrences are numbered without gaps. So the count in a row
is the number of its last occurrence: skipped times are subtracted from it, and an extra occurrence is added.
"""

from typing import Final, Literal, NamedTuple

import msgspec

from punctual.contract.counting import nth_after, planned_between
from punctual.contract.recurrence import SHORTEST_MS, Recurrence
from tables import RecordStamp

Reason = Literal["missed", "paused", "moved"]

#: Due time of the occurrence of a paused series: 9999-12-31, which no request can have.
PAUSED_MS: Final = 253_402_214_400_000
#: Factor by which a search looks back further each time.
_FURTHER: Final = 8
#: Maximum number of pauses that a series keeps; the first is dropped for another, and its times are delivered.
_HELD: Final = 8


class HeldOccurrence(NamedTuple):
    """The due time of an occurrence, and the stamp of the record that set it, which a pause or resume has kept.

    `due_ms` (epoch ms) is None if the occurrence is due as planned, or if its row has the due time again.
    """

    due_ms: int | None = None
    stamp: RecordStamp | None = None


class Rule(Recurrence, array_like=True, frozen=True, gc=False):
    """The schedule in a series' row: that of the request, and the times at which the series was paused.

    Each of `held` is a pair of epoch ms: nothing is planned after the first and up to the second. `offset_s` is how far
    clocks in `zone` are ahead of UTC at the row's planned time, by the zone rules that it was planned by. `kept` is set
    if the last command that moved the occurrence was a pause or resume.
    """

    held: tuple[tuple[int, int], ...] = ()
    offset_s: int | None = None
    kept: HeldOccurrence | None = None


class Passed(NamedTuple):
    """Planned times that were skipped: the first one (epoch ms), their number, and the reason."""

    first_ms: int
    number: int
    reason: Reason


class Plan(NamedTuple):
    """The times that a rule plans after `after_ms`, at most `left`, or all if it is None."""

    rule: Rule
    after_ms: int
    left: int | None

    def first(self) -> int | None:
        """Return the next planned time."""
        return None if self.left == 0 else after(self.rule, self.after_ms)

    def until(self, to_ms: int) -> int:
        """Return the number of planned times up to `to_ms`."""
        return between(self.rule, self.after_ms, to_ms, self.left)

    def last(self, to_ms: int) -> int | None:
        """Return the last planned time up to `to_ms`."""
        last = _last_before(self.rule, self.after_ms, to_ms)
        if last is None or self.left is None:
            return last
        number = self.until(last)
        return last if number < self.left else _nth(self.rule, self.after_ms, self.left, last)

    def latest(self, to_ms: int, most: int) -> "Plan":
        """Return this plan with only the last `most` of its times up to `to_ms`.

        The search looks back from `to_ms`, eight times as far each time, until there are more, and halves the last
        range. No range is counted twice, so it costs about twice as much as counting all times.
        """
        if self.left is not None:
            if self.left <= most:
                return self
            to_ms = self.last(to_ms) or to_ms
        rule, back_ms = self.rule, most * (self.rule.every_ms or SHORTEST_MS)
        enough_ms, room = to_ms, most
        while True:
            many_ms = max(self.after_ms, to_ms - back_ms)
            there = between(rule, many_ms, enough_ms, room + 1)
            if there > room:
                break
            if many_ms == self.after_ms:
                return self
            enough_ms, room, back_ms = many_ms, room - there, back_ms * _FURTHER
        while enough_ms - many_ms > SHORTEST_MS:
            middle_ms = (many_ms + enough_ms) // 2
            there = between(rule, middle_ms, enough_ms, room + 1)
            if there > room:
                many_ms = middle_ms
            else:
                enough_ms, room = middle_ms, room - there
        return Plan(rule, enough_ms, None if self.left is None else most)

    def due_by(self, id_: str, ms: int) -> int:
        """Return the time up to which all planned times are due by `ms`: jitter can make the last one due later."""
        last = self.last(ms) if self.rule.jitter_ms else None
        return ms if last is None or self.rule.due(id_, last) <= ms else last - 1

    def past(self, ms: int, reason: Reason) -> tuple["Plan", Passed | None]:
        """Return the plan after `ms`, and the times that are skipped for it."""
        if ms <= self.after_ms:
            return self, None
        number, first_ms = self.until(ms), self.first()
        left = None if self.left is None else self.left - number
        passed = Passed(first_ms, number, reason) if number and first_ms is not None else None
        return Plan(self.rule, ms, left), passed


def after(rule: Rule, ms: int) -> int | None:
    """Return the first time after `ms` that a rule plans while its series is not paused."""
    planned_ms = rule.after(ms)
    for begin_ms, end_ms in rule.held:
        if planned_ms is not None and begin_ms < planned_ms <= end_ms:
            planned_ms = rule.after(end_ms)
    return planned_ms


def between(rule: Rule, after_ms: int, to_ms: int, most: int | None = None) -> int:
    """Return how many times are planned after `after_ms` and up to `to_ms`, at most `most`."""
    if not rule.held:
        return planned_between(rule, after_ms, to_ms, most)
    number, at_ms = 0, after_ms
    for begin_ms, end_ms in (*rule.held, (to_ms, to_ms)):
        number += planned_between(rule, at_ms, min(begin_ms, to_ms))
        at_ms = max(at_ms, end_ms)
    return number if most is None else min(number, most)


def hold(rule: Rule, stamp_ms: int) -> Rule:
    """Return a rule without planned times after `stamp_ms`, until it is resumed."""
    return msgspec.structs.replace(rule, held=(*rule.held[-_HELD + 1 :], (stamp_ms, PAUSED_MS)))


def held_since(rule: Rule) -> int | None:
    """Return the time since which a series is paused, None if it is not."""
    return rule.held[-1][0] if rule.held and rule.held[-1][1] == PAUSED_MS else None


def without_holds(rule: Rule, before_ms: int) -> Rule:
    """Return a rule without the pauses that ended before `before_ms`."""
    if not rule.held:
        return rule
    return msgspec.structs.replace(rule, held=tuple(span for span in rule.held if span[1] >= before_ms))


def less(rule: Rule, number: int) -> Rule:
    """Return a rule with its count reduced by `number`; a negative number raises it."""
    if rule.count is None or not number:
        return rule
    return msgspec.structs.replace(rule, count=rule.count - number)


def _last_before(rule: Rule, after_ms: int, to_ms: int) -> int | None:
    last = rule.last_before(after_ms, to_ms)
    for begin_ms, end_ms in reversed(rule.held):
        if last is not None and begin_ms < last <= end_ms:
            last = rule.last_before(after_ms, begin_ms)
    return last


def _nth(rule: Rule, after_ms: int, number: int, to_ms: int) -> int | None:
    if not rule.held:
        return nth_after(rule, after_ms, number, to_ms)
    at_ms = after_ms
    for begin_ms, end_ms in (*rule.held, (to_ms, to_ms)):
        there = planned_between(rule, at_ms, min(begin_ms, to_ms), number)
        if there == number:
            return nth_after(rule, at_ms, number, to_ms)
        number, at_ms = number - there, max(at_ms, end_ms)
    return None
