"""Schedules with `schedule_*` headers, whose key is the id."""

from dataclasses import replace

import pytest

from tests.punctual.contract.foreign import KARAFKA, beside, but, decode
from tests.punctual.contract.records import NOW

NAME = "karafka"


def test_a_schedule_is_delivered_with_its_headers_and_where_it_was() -> None:
    asked = decode(NAME, KARAFKA)

    assert (asked.op, asked.id, asked.to) == ("schedule", "orders-7d5a0ff5", "orders")
    assert (asked.due_ms, asked.key, asked.value, asked.partition) == (1_893_456_000_000, b"order-17", b"v", None)
    assert asked.headers == [
        *KARAFKA.headers,
        ("schedule_source_topic", b"foreign"),
        ("schedule_source_partition", b"3"),
        ("schedule_source_offset", b"42"),
        ("schedule_source_key", b"orders-7d5a0ff5"),
    ]


@pytest.mark.parametrize("kind", [b"cancel", b"tombstone"])
def test_a_cancel_and_the_schedulers_own_tombstone_cancel(kind: bytes) -> None:
    headers = [("schedule_schema_version", b"1.0.0"), ("schedule_source_type", kind), ("schedule_source_offset", b"7")]
    asked = decode(NAME, replace(KARAFKA, value=None, headers=headers))

    assert (asked.op, asked.id) == ("cancel", "orders-7d5a0ff5")


def test_a_delivery_that_is_scheduled_again_has_only_its_new_source() -> None:
    before = beside(KARAFKA, ("schedule_source_offset", b"1"), ("schedule_source_key", b"an earlier one"))

    assert decode(NAME, before).headers == decode(NAME, KARAFKA).headers


@pytest.mark.parametrize("version", [b"1.0.0", b"1.2.10", b"1.0", b"1"])
def test_versions_of_the_same_schema_are_understood(version: bytes) -> None:
    assert decode(NAME, but(KARAFKA, schedule_schema_version=version)).op == "schedule"


def test_a_partition_or_the_messages_own_key_may_choose_it() -> None:
    numbered = beside(KARAFKA, ("schedule_target_partition", b"3"))
    keyed = beside(KARAFKA, ("schedule_target_partition_key", b"order-17"))

    assert decode(NAME, numbered).partition == 3
    assert decode(NAME, beside(numbered, delay_to_partition=b"3")).partition == 3
    assert decode(NAME, keyed).partition is None


def test_a_payload_may_be_null_and_a_key_missing() -> None:
    asked = decode(NAME, replace(but(KARAFKA, schedule_target_key=None), value=None))

    assert (asked.op, asked.key, asked.value) == ("schedule", None, None)


def test_native_commands_take_the_key_for_the_id() -> None:
    asked = decode(NAME, replace(KARAFKA, headers=[("delay-op", b"reschedule"), ("delay-after", b"5")]))

    assert (asked.op, asked.id, asked.due_ms) == ("reschedule", "orders-7d5a0ff5", NOW + 5)
