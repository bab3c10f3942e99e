"""Plans series again that were planned by other rules of their zones (docs/reference/recurring-messages.md).

An occurrence keeps its number and its local time; if that time is over, the occurrence was missed.
"""

from typing import NamedTuple

import msgspec

from app.engine.steps.context import PartitionContext
from app.engine.steps.occurrences import due_of, is_as_planned
from app.engine.steps.plan import PAUSED_MS
from app.engine.steps.series_rules import is_between, planned_here, rule_of, with_rule
from app.engine.steps.step import Step
from app.engine.steps.transitions import ended
from punctual.contract.events import ZONE_RULES
from tables import Entry, Series, keys
from tables.entry import encode


class Replanned(NamedTuple):
    """The due time of an occurrence by the zone rules of this worker, and its entry."""

    due_ms: int
    entry: Entry


def replan(context: PartitionContext, step: Step, key: bytes, entry: Entry) -> None:
    """Add to a step the changes in a series by the zone rules of this worker."""
    changed = replanned(entry, key)
    if changed is None:
        return
    if changed.due_ms == keys.due_of(key):
        step.changes.rewrite(key, changed.entry, encode(changed.entry, step.version))
        return
    waiting = msgspec.structs.replace(changed.entry, attempts=0, next_try_ms=None)
    step.remove(key, entry)
    row = context.free_key(step, key, changed.due_ms)
    step.put(row, waiting, encode(waiting, step.version))
    ended(step, "rescheduled", keys.due_of(row), entry, reason=ZONE_RULES)


def replanned(entry: Entry, row: bytes) -> Replanned | None:
    """Return the message in a row by the zone rules of this worker, or None if the rules do not change it.

    Only the plan of its series changes, not its due time, if the occurrence was moved, is paused, or is an extra one,
    or if the new rules would plan it after the end of its series.
    """
    series = entry.series
    if series is None or entry.replaced:
        return None
    rule, planned_ms = rule_of(series), planned_here(series)
    if planned_ms is None:
        return None
    new = with_rule(series, rule, planned_ms, series.number)
    if new == series or (planned_ms == series.planned_ms and rule.offset_s is None):
        return None
    due_ms = entry.asked_due(row)
    if not is_between(series) and due_ms != PAUSED_MS and is_as_planned(series, entry.id, due_ms):
        due_ms = due_of(rule, entry.id, planned_ms)
    return Replanned(*_having(entry, new).within(due_ms))


def _having(entry: Entry, series: Series) -> Entry:
    return msgspec.structs.replace(entry, series=series)
