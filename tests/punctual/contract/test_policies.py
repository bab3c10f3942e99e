"""Policies of an input hold for what its requests do not say themselves, in any dialect."""

import re

import pytest

from punctual.contract.dialects.dialects import dialect_of
from punctual.contract.jitter import spread
from punctual.contract.policies import Policies, parse_policies, with_policies
from punctual.contract.request import Request
from tests.punctual.contract.records import NOW, FakeRecord, Log

ALL = "no-later PT10S jitter 500  max-late PT1M if-late drop dedupe 0"


def decoded(record: FakeRecord, text: str = ALL, dialect: str = "native") -> Request:
    return with_policies(dialect_of(dialect), parse_policies(text)).decode(record)


def test_each_policy_is_read() -> None:
    assert parse_policies(ALL) == Policies(10_000, 500, 60_000, "drop", 0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sooner 1", "'sooner' is not a policy. Use no-later, jitter, max-late, if-late, dedupe"),
        ("jitter", "jitter needs a value after it"),
        ("jitter 1 jitter 2", "jitter is given twice"),
        ("jitter soon", "'soon' is not a duration"),
        ("if-late drop", "if-late needs max-late: the maximum lateness."),
        ("max-late 1 if-late never", "if-late must be one of deliver, drop, dead-letter"),
        (" ", "it has no policy. Write names and values, as in 'no-later PT10S'"),
    ],
)
def test_an_invalid_policy_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}"):
        parse_policies(text)


def test_a_request_without_the_headers_gets_the_policies() -> None:
    asked = decoded(Log().record(delay_to="orders", delay_at=str(NOW), delay_id="a"))

    assert asked.due_ms == spread("a", NOW, 500)
    policies = (asked.no_later_ms, asked.jitter_ms, asked.max_late_ms, asked.if_late, asked.dedupe_ms)
    assert policies == (10_000, 500, 60_000, "drop", 0)


def test_headers_of_a_request_override_the_policies() -> None:
    said = {"delay_no_later": "1", "delay_jitter": "0", "delay_max_late": "2", "delay_dedupe": "3"}
    asked = decoded(Log().record(delay_to="orders", delay_at=str(NOW), **said))

    assert (asked.due_ms, asked.no_later_ms, asked.max_late_ms, asked.if_late, asked.dedupe_ms) == (NOW, 1, 2, None, 3)


def test_of_commands_a_reschedule_alone_has_jitter() -> None:
    moved = decoded(Log().record(delay_op="reschedule", delay_id="a", delay_at=str(NOW)))
    cancel = decoded(Log().record(delay_op="cancel", delay_id="a"))

    assert (moved.due_ms, moved.no_later_ms, moved.max_late_ms) == (spread("a", NOW, 500), None, None)
    assert (cancel.due_ms, cancel.jitter_ms) == (0, None)


def test_retries_and_markers_of_queues_have_none() -> None:
    policies = "no-later PT3S jitter 500 max-late PT1S if-late drop dedupe PT1M"
    retried = {"delay_retry": "exponential 8s 2 1h", "delay_to": "orders"}
    marker = {"delay_after": "8000", "delay_id": "billing:orders-0-1", "delay_attempt": "2", "delay_to": "orders"}
    for said in (retried, marker):
        asked = decoded(Log().record(**said), policies)
        found = (asked.due_ms - NOW, asked.no_later_ms, asked.jitter_ms, asked.max_late_ms, asked.dedupe_ms)
        assert found == (8_000, None, None, None, None)


def test_a_promoted_message_gets_no_policies_again() -> None:
    parked = {"delay_source": "delay-requests-0-1", "delay_parked": f"{NOW},{NOW}"}
    asked = decoded(Log().record(delay_to="orders", delay_at=str(NOW), delay_id="a", **parked))

    assert (asked.due_ms, asked.no_later_ms) == (NOW, None)


def test_a_dialect_that_cannot_say_them_has_them_too() -> None:
    record = FakeRecord([("deliverAfter", b"%d" % NOW)], topic="orders.delayed")
    asked = decoded(record, dialect="deliver-after:orders")

    assert (asked.due_ms, asked.no_later_ms) == (spread(asked.id, NOW, 500), 10_000)


def test_a_policy_that_would_drop_every_message_is_refused() -> None:
    with pytest.raises(ValueError, match="max-late 0 delivers nothing"):
        parse_policies("max-late 0 if-late drop")

    assert parse_policies("max-late 0").max_late_ms == 0
