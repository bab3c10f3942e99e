"""The times that a series has still before it: those of its rule that come after a moment, within its count.

`delay-count` counts planned times, whatever becomes of them, and numbers of occurrences have no gaps. So the count in a
row is the number that its last occurrence will have: times that are passed over are taken from it, and one that is run
in addition is added.
"""

from typing import Final, Literal, NamedTuple

import msgspec

from punctual.contract.counting import nth_after, planned_between
from punctual.contract.recurrence import SHORTEST_MS, Recurrence
from tables import RecordStamp

Reason = Literal["missed", "paused", "moved"]

#: When an occurrence of a series is due that is paused: 9999-12-31, which no request can ask for.
PAUSED_MS: Final = 253_402_214_400_000
#: How many times as far a search looks back each time.
_FURTHER: Final = 8
#: A series keeps so many spans in which it was paused: beyond that the first is forgotten, and delivered.
_HELD: Final = 8


class HeldOccurrence(NamedTuple):
    """What a pause or a resume has left as it was: an occurrence's due time, and the stamp of the record that set it.

    `due_ms` (epoch ms) is None if the occurrence is due as planned, and once its row has the due time again.
    """

    due_ms: int | None = None
    stamp: RecordStamp | None = None


class Rule(Recurrence, array_like=True, frozen=True, gc=False):
    """What a row keeps of when its series goes on: what the request has asked for, and when the series was paused.

    After the first and up to the second of the times (epoch ms) in `held` nothing is planned. `offset_s` is how far the
    clocks of `zone` are ahead of UTC at the planned time of the row, by the zone rules that it was planned by. `kept`
    is there if a pause or a resume is the last command that has moved the occurrence.
    """

    held: tuple[tuple[int, int], ...] = ()
    offset_s: int | None = None
    kept: HeldOccurrence | None = None


class Passed(NamedTuple):
    """Planned times that never became occurrences: how many, the first of them (epoch ms), and why."""

    first_ms: int
    number: int
    reason: Reason


class Plan(NamedTuple):
    """What a rule plans after a time, `left` of it at most; None is all of it."""

    rule: Rule
    after_ms: int
    left: int | None

    def first(self) -> int | None:
        """Return the next planned time."""
        return None if self.left == 0 else after(self.rule, self.after_ms)

    def until(self, to_ms: int) -> int:
        """Return how many times are planned that are not after a time."""
        return between(self.rule, self.after_ms, to_ms, self.left)

    def last(self, to_ms: int) -> int | None:
        """Return the last of the planned times that are not after a time."""
        found = _last_before(self.rule, self.after_ms, to_ms)
        if found is None or self.left is None:
            return found
        number = self.until(found)
        return found if number < self.left else _nth(self.rule, self.after_ms, self.left, found)

    def latest(self, to_ms: int, most: int) -> "Plan":
        """Return what is planned of this, but of the times that are not after `to_ms` the last `most` alone.

        It looks back from `to_ms`, each time eight times as far, until there are more, and halves the last stretch. It
        counts nothing again that it has counted, so it costs about twice as much as to count all.
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
        """Return the time up to which all planned times are due by `ms`: jitter makes the last one due later."""
        found = self.last(ms) if self.rule.jitter_ms else None
        return ms if found is None or self.rule.due(id_, found) <= ms else found - 1

    def past(self, ms: int, reason: Reason) -> tuple["Plan", Passed | None]:
        """Return what is planned after a time, and what that passes over."""
        if ms <= self.after_ms:
            return self, None
        number, first_ms = self.until(ms), self.first()
        left = None if self.left is None else self.left - number
        passed = Passed(first_ms, number, reason) if number and first_ms is not None else None
        return Plan(self.rule, ms, left), passed


def after(rule: Rule, ms: int) -> int | None:
    """Return the first time after `ms` that a rule plans, and at which its series was not paused."""
    planned_ms = rule.after(ms)
    for begin_ms, end_ms in rule.held:
        if planned_ms is not None and begin_ms < planned_ms <= end_ms:
            planned_ms = rule.after(end_ms)
    return planned_ms


def between(rule: Rule, after_ms: int, to_ms: int, most: int | None = None) -> int:
    """Return how many times are planned after one and not after another, up to `most`."""
    if not rule.held:
        return planned_between(rule, after_ms, to_ms, most)
    number, at_ms = 0, after_ms
    for begin_ms, end_ms in (*rule.held, (to_ms, to_ms)):
        number += planned_between(rule, at_ms, min(begin_ms, to_ms))
        at_ms = max(at_ms, end_ms)
    return number if most is None else min(number, most)


def hold(rule: Rule, stamp_ms: int) -> Rule:
    """Return a rule that plans nothing after a time, until it is released."""
    return msgspec.structs.replace(rule, held=(*rule.held[-_HELD + 1 :], (stamp_ms, PAUSED_MS)))


def held_since(rule: Rule) -> int | None:
    """Return since when a series is paused, None if it is not."""
    return rule.held[-1][0] if rule.held and rule.held[-1][1] == PAUSED_MS else None


def without_holds(rule: Rule, before_ms: int) -> Rule:
    """Return a rule without the spans that were over before a time."""
    if not rule.held:
        return rule
    return msgspec.structs.replace(rule, held=tuple(span for span in rule.held if span[1] >= before_ms))


def less(rule: Rule, number: int) -> Rule:
    """Return a rule whose count has no room any more for `number` times; a negative number makes room."""
    if rule.count is None or not number:
        return rule
    return msgspec.structs.replace(rule, count=rule.count - number)


def _last_before(rule: Rule, after_ms: int, to_ms: int) -> int | None:
    found = rule.last_before(after_ms, to_ms)
    for begin_ms, end_ms in reversed(rule.held):
        if found is not None and begin_ms < found <= end_ms:
            found = rule.last_before(after_ms, begin_ms)
    return found


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
