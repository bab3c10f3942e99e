"""What GET tells of a message can be sent again."""

from typing import Any

import msgspec
import pytest

from app.engine.steps.occurrences import due_of
from app.engine.steps.series_rules import begun
from app.gateway.api.pending import pending
from app.gateway.api.short_form import FIELDS, draft
from app.serve.search.row import row_of
from punctual.contract import native
from punctual.contract.record import PlainRecord
from punctual.contract.recurrence import Recurrence
from tests.tables.rows import NOW, entry, key

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "rule",
    [
        Recurrence(HOUR_MS, None, anchor_ms=NOW, jitter_ms=60_000, count=3),
        Recurrence(None, "0 * * * *", zone="Europe/Berlin", jitter_ms=60_000, until_ms=NOW + 9 * HOUR_MS),
        Recurrence(HOUR_MS, None, anchor_ms=NOW, misfire="catch-up", window_ms=1_000),
    ],
)
def test_a_series_that_is_sent_again_is_the_same_one(rule: Recurrence) -> None:
    waits = msgspec.structs.replace(entry("tick"), series=begun(rule, NOW))
    due_ms = due_of(rule, "tick", NOW)
    assert (due_ms != NOW) == (rule.jitter_ms is not None)

    told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(pending(row_of(0, key(due_ms), waits))))
    assert told["due-ms"] == due_ms
    again = draft(msgspec.json.encode({name: told[name] for name in FIELDS if name in told}), "delay-requests")
    record = PlainRecord(again.topic, 0, 0, NOW - 5 * HOUR_MS, again.key, again.value, again.headers)
    asked = native.decode(record)
    assert (asked.recurrence, asked.planned_ms) == (rule, NOW)


def test_a_message_that_does_not_recur_is_due_at_its_time() -> None:
    told = pending(row_of(0, key(NOW), entry()))
    assert (told.at, told.due_ms, told.jitter) == ("2026-01-01T00:00:00.000Z", NOW, None)
