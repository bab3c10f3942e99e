"""A run in which something went wrong gives no result."""

from collections.abc import Iterator

from benchmarks.plan import Plan
from benchmarks.tally import Tally

PLAN = Plan(name="steady", to="orders", count=3, base_ms=1_000, step_us=10_000)


def deliver(tally: Tally, number: int, late_ms: int = 4) -> None:
    due_ms = list(PLAN.due_times())[number]
    tally.add(PLAN.id(number).encode(), PLAN.value(number), due_ms + late_ms, b"%d" % due_ms)


def delivered(*numbers: int) -> Tally:
    tally = Tally([PLAN])
    for number in numbers:
        deliver(tally, number)
    return tally


def test_a_tally_in_which_each_message_came_once_and_late_is_correct() -> None:
    assert delivered(0, 1, 2).faults() == []


def test_lateness_is_the_append_time_minus_the_due_time_asked_for() -> None:
    assert [found.late_ms for found in delivered(0, 1, 2).deliveries(PLAN)] == [4, 4, 4]


def test_a_delivery_in_the_millisecond_it_is_due_is_not_early() -> None:
    tally = delivered(0, 1)
    deliver(tally, 2, late_ms=0)

    assert tally.faults() == []


def test_missing_messages_are_lost() -> None:
    assert delivered(0, 2).faults() == ["1 of 3 are lost"]


def test_a_millisecond_too_soon_is_early() -> None:
    tally = delivered(0, 1)
    deliver(tally, 2, late_ms=-1)

    [fault] = tally.faults()
    assert fault.startswith("1 came early")


def test_an_early_second_copy_is_early_too() -> None:
    tally = delivered(0, 1, 2)
    deliver(tally, 2, late_ms=-1)

    assert tally.faults(duplicates_allowed=True)


def test_a_second_copy_is_wrong_unless_a_worker_was_killed() -> None:
    tally = delivered(0, 1, 2, 2)

    assert tally.faults() == ["1 came twice"]
    assert tally.faults(duplicates_allowed=True) == []


def test_the_first_copy_counts() -> None:
    tally = delivered(0, 1, 2)
    deliver(tally, 2, late_ms=900)

    assert max(found.late_ms for found in tally.deliveries(PLAN)) == 4


def wrong_records() -> Iterator[tuple[bytes | None, bytes | None, bytes | None]]:
    key, value = PLAN.id(0).encode(), PLAN.value(0)
    yield key, PLAN.value(1), b"1000"
    yield key, None, b"1000"
    yield key, value, b"1001"
    yield key, value, None
    yield None, value, b"1000"
    yield b"steady-3", value, b"1000"
    yield b"other-0", value, b"1000"
    yield b"\xff", value, b"1000"


def test_an_unexpected_delivery_is_wrong_and_settles_no_message() -> None:
    for key, value, due in wrong_records():
        tally = delivered(1, 2)
        tally.add(key, value, 1_004, due)

        assert len(tally.faults()) == 2, (key, value, due)


def test_a_delivery_says_in_the_unit_of_its_plan_when_it_was_due() -> None:
    plan = Plan(name="whole", to="orders", count=1, base_ms=7_900, unit_ms=1_000)
    tally = Tally([plan])
    tally.add(plan.id(0).encode(), plan.value(0), 7_012, b"7")

    assert tally.faults() == []
    assert [found.late_ms for found in tally.deliveries(plan)] == [12]


def test_each_plan_has_its_own_deliveries() -> None:
    other = Plan(name="steady-too", to="orders", count=1, base_ms=1_000)
    tally = Tally([PLAN, other])
    tally.add(other.id(0).encode(), other.value(0), 1_001, b"1000")
    deliver(tally, 0)

    assert [found.id for found in tally.deliveries(other)] == ["steady-too-0"]
    assert [found.id for found in tally.deliveries(PLAN)] == ["steady-0"]
