"""Schedules with `Nats-Schedule*` headers, whose key is the id."""

from dataclasses import replace

import pytest

from punctual.contract.recurrence import Recurrence
from tests.punctual.contract.foreign import NATS, beside, but, decode
from tests.punctual.contract.records import NOW

NAME = "nats"


def test_the_documented_message_is_delivered_as_the_server_would() -> None:
    asked = decode(NAME, beside(NATS, ("Nats-Msg-Id", b"1"), ("Nats-Expected-Last-Sequence", b"1"), ("trace", b"1")))

    assert (asked.op, asked.id, asked.to) == ("schedule", "$SCHED.update_orders", "$SCHED.trigger.update_orders")
    assert (asked.due_ms, asked.key, asked.value) == (1_257_894_000_000, b"$SCHED.update_orders", b"body")
    assert asked.headers == [
        ("trace", b"1"),
        ("Nats-Scheduler", b"$SCHED.update_orders"),
        ("Nats-Schedule-Next", b"purge"),
        ("Nats-TTL", b"5m"),
    ]


def test_times_have_zones_and_names_any_case() -> None:
    asked = decode(NAME, beside(but(NATS, Nats_Schedule=None), ("nats-schedule", b"@at 2030-01-31T08:00:00.5+01:00")))

    assert asked.due_ms == 1_896_073_200_500


@pytest.mark.parametrize("life", [b"never", b"60", b"1h30m", b"1.5s"])
def test_the_ttl_and_the_rollup_of_the_delivery_are_set(life: bytes) -> None:
    asked = decode(NAME, beside(but(NATS, Nats_Schedule_TTL=life), ("Nats-Schedule-Rollup", b"sub")))

    assert asked.headers[2:] == [("Nats-TTL", life), ("Nats-Rollup", b"sub")]


def test_a_message_that_stops_a_schedule_cancels_it() -> None:
    headers = [("Nats-Scheduler", b"orders.7"), ("Nats-Schedule-Next", b"purge")]
    asked = decode(NAME, replace(NATS, headers=headers, key=b"elsewhere"))

    assert (asked.op, asked.id, asked.headers) == ("cancel", "orders.7", [])


def test_native_commands_take_the_subject_for_the_id() -> None:
    asked = decode(NAME, replace(NATS, headers=[("delay-op", b"cancel"), ("delay-if-due", b"7")]))

    assert (asked.op, asked.id, asked.if_due_ms) == ("cancel", "$SCHED.update_orders", 7)


def test_the_past_is_due_at_once() -> None:
    assert decode(NAME, NATS).due_ms < NOW


@pytest.mark.parametrize(
    ("schedule", "rule", "first_ms"),
    [
        (b"@every 1h30m", Recurrence(5_400_000, None, NOW + 5_400_000), NOW + 5_400_000),
        (b"0 30 9 * * *", Recurrence(None, "0 30 9 * * *"), NOW + 34_200_000),
        (b"@daily", Recurrence(None, "0 0 * * *"), NOW + 86_400_000),
    ],
)
def test_a_schedule_that_goes_on_is_a_recurring_message(schedule: bytes, rule: Recurrence, first_ms: int) -> None:
    asked = decode(NAME, beside(but(NATS, Nats_Schedule=schedule), ("trace", b"1")))

    assert (asked.recurrence, asked.planned_ms, asked.due_ms) == (rule, first_ms, first_ms)
    assert asked.headers == [("trace", b"1"), ("Nats-Scheduler", b"$SCHED.update_orders"), ("Nats-TTL", b"5m")]


def test_a_schedule_that_goes_on_has_a_zone_and_an_end() -> None:
    zone, life = ("Nats-Schedule-Time-Zone", b"Europe/Berlin"), ("Nats-TTL", b"1h")
    asked = decode(NAME, beside(but(NATS, Nats_Schedule=b"0 * * * * *"), zone, life))

    assert asked.recurrence == Recurrence(None, "0 * * * * *", 0, "Europe/Berlin", NOW + 3_600_000)
    assert "Nats-TTL" in dict(asked.headers)  # that of the deliveries


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        # A day of month and a weekday mean either day, unless one of the fields has a wildcard without a step.
        (b"0 0 9 */2 * 1", "0 0 9 1-31/2 * 1"),
        (b"0 0 9 1 * */2", "0 0 9 1 * 0-6/2"),
        (b"0 0 9 */1 * 1", "0 0 9 * * 1"),
        (b"0 0 9 1,* * 1", "0 0 9 * * 1"),
        (b"0 0 9 */2,5 * *", "0 0 9 1-31/2,5 * *"),
        # Weekdays are 0 to 6, so that Sunday is not the last day of a week of eight.
        (b"0 0 9 * * 1/2", "0 0 9 * * 1-6/2"),
        (b"0 0 9 * * mon/3", "0 0 9 * * mon-6/3"),
        (b"0 0 9 * * 1-5/2", "0 0 9 * * 1-5/2"),
        # A question mark is a star, wherever it is.
        (b"0 0 9 ? * 1", "0 0 9 * * 1"),
        (b"0 ?/15 9 1 * ?", "0 */15 9 1 * *"),
        (b"0 0 9 ?/2 * 1", "0 0 9 1-31/2 * 1"),
        (b"0 */15 9-17/2 1 1/3 *", "0 */15 9-17/2 1 1/3 *"),
    ],
)
def test_cron_means_the_same_as_on_the_nats_server(theirs: bytes, ours: str) -> None:
    asked = decode(NAME, but(NATS, Nats_Schedule=theirs))

    assert asked.recurrence == Recurrence(None, ours)


def test_either_day_is_enough_where_the_server_takes_either() -> None:
    """2026-01-01 is a Thursday: odd days of the month, and Mondays."""
    asked = decode(NAME, but(NATS, Nats_Schedule=b"0 0 0 */2 * 1"))

    assert asked.recurrence is not None
    planned = asked.recurrence.following(1_767_225_600_000 - 1, 6)
    assert [(at - 1_767_225_600_000) // 86_400_000 + 1 for at in planned] == [1, 3, 5, 7, 9, 11]
    assert 12 in [(at - 1_767_225_600_000) // 86_400_000 + 1 for at in asked.recurrence.following(planned[-1], 1)]
