"""The circuit breaker, on a clock of the test's own."""

import math
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from punctual.queue import Breaker
from tests.harness.fuzz import share

HALF_AN_HOUR = 1_800.0


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def open_breaker(clock: Clock) -> Breaker:
    breaker = Breaker(share=0.5, over=10, probe_after_s=1, longest_s=60, clock=clock)
    for _ in range(10):
        breaker.failed()
    assert breaker.is_open
    return breaker


def test_it_is_closed_while_less_than_its_share_of_the_last_messages_fails() -> None:
    breaker = Breaker(share=0.5, over=10)
    for number in range(100):
        (breaker.failed if number % 5 in (0, 2) else breaker.succeeded)()

    assert not breaker.is_open
    assert breaker.wait_s() == 0


def test_it_opens_when_its_share_of_the_last_messages_has_failed() -> None:
    breaker = Breaker(share=0.5, over=10)
    for _ in range(5):
        breaker.succeeded()
    for _ in range(4):
        breaker.failed()
    assert not breaker.is_open

    breaker.failed()

    assert (breaker.is_open, breaker.opened) == (True, 1)


def test_a_few_messages_do_not_open_it() -> None:
    breaker = Breaker(share=0.5, over=10)
    for _ in range(9):
        breaker.failed()

    assert not breaker.is_open


def test_one_probe_at_a_time_passes_after_a_while() -> None:
    clock = Clock()
    breaker = open_breaker(clock)
    assert breaker.wait_s() == 1
    clock.now = 1
    assert breaker.wait_s() == 0

    breaker.passed()

    assert (breaker.probes, breaker.wait_s()) == (1, math.inf)


def test_a_probe_that_fails_makes_the_next_one_wait_longer() -> None:
    clock = Clock()
    breaker = open_breaker(clock)
    waits = []
    for _ in range(8):
        clock.now += breaker.wait_s()
        breaker.passed()
        breaker.failed()
        waits.append(breaker.wait_s())

    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]


def test_deliveries_that_were_out_when_it_opened_may_fail_without_delaying_the_probe() -> None:
    breaker = open_breaker(Clock())
    for _ in range(100):
        breaker.failed()

    assert (breaker.wait_s(), breaker.opened) == (1, 1)


def test_a_success_closes_it_and_it_starts_to_count_again() -> None:
    clock = Clock()
    breaker = open_breaker(clock)
    clock.now = 1
    breaker.passed()
    breaker.succeeded()
    assert (breaker.is_open, breaker.wait_s()) == (False, 0)

    for _ in range(8):
        breaker.failed()
    assert not breaker.is_open
    breaker.failed()
    assert (breaker.opened, breaker.wait_s()) == (2, 1)


def simulate(fails: "tuple[float, float]", rate: float, seconds: float, *, over: int) -> "tuple[list[float], float]":
    """Handle messages of a full queue, one each 1/rate seconds as far as the breaker lets them pass.

    Everything fails between the two moments of `fails`. Returns when messages met the failing part, and when the first
    message after it was processed.
    """
    clock, met, back = Clock(), [], math.inf
    breaker = Breaker(over=over, clock=clock)
    while clock.now < seconds:
        wait = breaker.wait_s()
        assert wait < math.inf, "no caller waits for this probe"
        clock.now += wait
        breaker.passed()
        clock.now += 1 / rate
        if fails[0] <= clock.now < fails[1]:
            met.append(clock.now)
            breaker.failed()
        else:
            breaker.succeeded()
            if clock.now >= fails[1]:
                back = min(back, clock.now)
    return met, back


def test_half_an_hour_of_errors_costs_the_failing_part_some_dozen_messages_and_ends_by_itself() -> None:
    begins, ends = 60.0, 60.0 + HALF_AN_HOUR
    met, back = simulate((begins, ends), rate=1_000, seconds=ends + 120, over=20)

    assert len(met) <= 20 + 6 + HALF_AN_HOUR / 60 + 1
    assert back - ends <= 60.1
    assert max(sum(one <= other < one + 10 for other in met[40:]) for one in met[40:]) == 1


@settings(deadline=None, max_examples=share(30))
@given(rate=st.floats(1, 200), over=st.integers(1, 100), outage=st.floats(1, 4_000))
def test_an_outage_of_any_length_is_bounded_and_ends_by_itself(rate: float, over: int, outage: float) -> None:
    met, back = simulate((10.0, 10.0 + outage), rate, 10.0 + outage + 200, over=over)

    assert len(met) <= over + 8 + outage / 60 + 1
    assert back - 10.0 - outage <= 60 + 2 / rate + over / rate
