"""The fields that the API returns for a row, from which the message can be scheduled again."""

import msgspec
import pytest

from app.engine.steps.moves import moved
from app.engine.steps.plan import PAUSED_MS
from app.engine.steps.series_rules import begun
from app.serve.search.pending import PendingMessage, pending
from punctual.contract.recurrence import Recurrence
from tables import Bound, Command, Entry, keys
from tables.commands import Operation

PLANNED_MS, MINUTE_MS = 1_795_611_600_000, 60_000
ENTRY = Entry("id", "to", b"k", b"v", [], "s-0-1")
RECURS = msgspec.structs.replace(
    ENTRY, series=begun(Recurrence(MINUTE_MS, None, anchor_ms=PLANNED_MS, count=3), PLANNED_MS)
)


def row(entry: Entry, due_ms: int) -> PendingMessage:
    return pending(0, keys.row_key(due_ms, 1, 0), entry)


def test_a_message_that_does_not_recur_has_no_series_and_without_a_bound_no_end() -> None:
    told = row(ENTRY, PLANNED_MS)
    assert (told.occurrence, told.planned_ms, told.latest_ms, told.asked_due_ms) == (None, None, None, None)


def test_a_bound_has_its_end_and_the_requested_value() -> None:
    due_ms, entry = msgspec.structs.replace(ENTRY, bound=Bound(PLANNED_MS, MINUTE_MS)).within(
        PLANNED_MS + 9 * MINUTE_MS
    )
    told = row(entry, due_ms)
    assert (told.due_ms, told.latest_ms) == (PLANNED_MS + MINUTE_MS, PLANNED_MS + MINUTE_MS)
    assert told.asked_due_ms == PLANNED_MS + 9 * MINUTE_MS


@pytest.mark.parametrize(
    ("op", "asked_ms", "due_ms", "paused", "extra"),
    [
        ("reschedule", PLANNED_MS + 5, PLANNED_MS + 5, False, False),
        ("deliver-now", PLANNED_MS - 5, PLANNED_MS - 5, False, True),
        ("pause", PAUSED_MS, PAUSED_MS, True, False),
    ],
)
def test_a_series_has_its_next_occurrences(
    op: Operation,
    asked_ms: int,
    due_ms: int,
    paused: bool,  # noqa: FBT001 - pytest's
    extra: bool,  # noqa: FBT001 - pytest's
) -> None:
    command = Command(op, "delay-requests-0-1", asked_ms, stamp_ms=asked_ms)
    told = row(moved(RECURS, PLANNED_MS, command).entry, due_ms)
    assert (told.planned_ms, told.paused, told.extra) == (PLANNED_MS, paused, extra)
    assert (told.every, told.count, told.misfire, told.cron) == ("60000", "3", "catch-up-last", None)
