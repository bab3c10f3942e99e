"""Retry topics, whose header says when in binary."""

import pytest

from tests.punctual.contract.foreign import DUE, SETTINGS, SPRING, beside, but, decode

NAME = "spring"


def test_a_retry_is_delivered_unchanged_to_the_inputs_destination() -> None:
    asked = decode(SETTINGS[NAME], SPRING)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "orders", DUE)
    assert (asked.key, asked.value, asked.headers) == (b"k", b"v", SPRING.headers)
    assert asked.id == asked.source


@pytest.mark.parametrize(
    ("value", "due_ms"),
    [
        (DUE.to_bytes(8), DUE),
        (DUE.to_bytes(6), DUE),
        (b"\x00", 0),
        (b"%d" % DUE, DUE),
        (b"2026-01-01T00:01:00Z", DUE),
    ],
)
def test_the_time_is_a_number_of_any_width_or_text(value: bytes, due_ms: int) -> None:
    assert decode(SETTINGS[NAME], but(SPRING, retry_topic_backoff_timestamp=value)).due_ms == due_ms


def test_the_last_retrys_time_counts() -> None:
    assert decode(SETTINGS[NAME], beside(SPRING, ("retry_topic-backoff-timestamp", b"\x01"))).due_ms == 1


def test_a_retry_of_a_delivery_is_a_new_message() -> None:
    again = beside(SPRING, delay_id=b"foreign-1-1", delay_due=b"1", delay_source=b"foreign-1-1")
    asked = decode(SETTINGS[NAME], again)

    assert (asked.id, asked.headers) == (asked.source, SPRING.headers)
