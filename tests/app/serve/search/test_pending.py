"""What GET tells of a message can be sent again."""

from typing import Any

import msgspec
import pytest

from app.engine.steps.occurrences import due_of
from app.engine.steps.series_rules import begun
from app.serve.messages.short_form import FIELDS, draft
from app.serve.search.pending import pending
from app.serve.web.problem import Problem
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
def test_a_series_that_is_sent_again_is_the_same_series(rule: Recurrence) -> None:
    waits = msgspec.structs.replace(entry("tick"), series=begun(rule, NOW))
    due_ms = due_of(rule, "tick", NOW)
    assert (due_ms != NOW) == (rule.jitter_ms is not None)

    told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(pending(0, key(due_ms), waits)))
    assert told["due_ms"] == due_ms
    again = draft(msgspec.json.encode({name: told[name] for name in FIELDS if name in told}), "delay-requests")
    record = PlainRecord(again.topic, 0, 0, NOW - 5 * HOUR_MS, again.key, again.value, again.headers)
    asked = native.decode(record)
    assert (asked.recurrence, asked.planned_ms) == (rule, NOW)


def test_a_message_that_does_not_recur_is_due_at_its_time() -> None:
    told = pending(0, key(NOW), entry())
    assert (told.at, told.due_ms, told.jitter) == ("2026-01-01T00:00:00.000Z", NOW, None)


def test_a_message_can_be_read_changed_and_sent_again() -> None:
    waits = msgspec.structs.replace(
        entry(), key=b"k", value=b"\xff", headers=[("h", b"1"), ("h", None)], max_late_ms=5, if_late="drop", partition=3
    )
    told = msgspec.to_builtins(pending(0, key(NOW), waits))
    told |= {"to": "elsewhere", "value": {"order": 42}, "life": [], "looked_back_to_ms": None}

    again = draft(msgspec.json.encode(told), "delay-requests")

    asked = native.decode(PlainRecord(again.topic, 0, 0, NOW - 5, again.key, again.value, again.headers))
    assert (asked.id, asked.to, asked.due_ms) == (waits.id, "elsewhere", NOW)
    assert (asked.key, asked.value, asked.headers) == (b"k", b'{"order":42}', [("h", b"1"), ("h", None)])
    assert (asked.max_late_ms, asked.if_late, asked.partition) == (5, "drop", 3)


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        ({"masked": True}, "were masked when it was read"),
        ({"cut": ["to"]}, "Some fields were cut"),
        ({"paused": True}, "Send it without paused"),
    ],
)
def test_a_message_that_would_not_be_the_same_is_refused(member: dict[str, Any], sentence: str) -> None:
    told = msgspec.to_builtins(pending(0, key(NOW), entry())) | member
    with pytest.raises(Problem, match=sentence) as refused:
        draft(msgspec.json.encode(told), "delay-requests")
    assert [one.pointer for one in refused.value.errors] == [f"#/{next(iter(member))}"]


def test_fields_have_the_names_of_earlier_versions_for_this_release() -> None:
    said = {"to": "t", "after": 1, "max_late": 5, "if_late": "drop", "to_cluster": "eu", "to_partition": 3}
    headers = dict(draft(msgspec.json.encode(said), "delay-requests").headers)
    present = {name.replace("_", "-"): one for name, one in said.items()}
    assert headers == dict(draft(msgspec.json.encode(present), "delay-requests").headers)
    with pytest.raises(Problem, match="max_late"):
        draft(msgspec.json.encode(said | {"max-late": 6}), "delay-requests")
