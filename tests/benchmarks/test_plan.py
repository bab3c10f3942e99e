"""The requests follow from the plan alone, in every process."""

import zlib

import msgspec

from benchmarks.generator import Order
from benchmarks.plan import Plan


def plan(**more: int) -> Plan:
    return Plan(**{"name": "steady", "to": "orders", "count": 100, "base_ms": 1_000_000, **more})  # type: ignore[arg-type]


def test_due_times_advance_by_the_step() -> None:
    assert list(plan(count=4, step_us=500).due_times()) == [1_000_000, 1_000_000, 1_000_001, 1_000_001]


def test_leads_are_spread_over_all_that_is_allowed_and_no_further() -> None:
    due = list(plan(count=20_000, lead_ms=1_000, spread_ms=9).due_times())

    assert (min(due), max(due)) == (1_001_000, 1_001_009)


def test_another_process_derives_the_same_due_times() -> None:
    here = Order("kafka:9092", "delay-requests", plan(lead_ms=1_000, spread_ms=9_000))
    there = msgspec.json.decode(msgspec.json.encode(here), type=Order)

    assert list(there.plan.due_times()) == list(here.plan.due_times())


def test_no_message_is_due_after_the_last_due_time() -> None:
    it = plan(count=1_000, step_us=1_000, lead_ms=10, spread_ms=500)

    assert max(it.due_times()) <= it.last_due_ms


def test_due_times_are_whole_multiples_of_their_unit() -> None:
    due = set(plan(count=1_000, base_ms=1_000_700, spread_ms=1_000, unit_ms=1_000).due_times())

    assert due == {1_000_000, 1_001_000}


def test_values_have_the_size_asked_for_and_tell_their_message() -> None:
    it = plan(value_bytes=200)

    assert len(it.value(7)) == 200
    assert it.value(7).startswith(b"steady-7.")


def test_values_do_not_compress() -> None:
    block = b"".join(plan().value(number) for number in range(16))

    assert len(zlib.compress(block)) > 0.85 * len(block)


def test_a_paced_message_is_sent_its_steps_after_the_start() -> None:
    assert plan(start_ms=5_000, step_us=1_500).send_ms(3) == 5_004
