"""Failing destinations are retried after a backoff; related ones share it."""

import math
from collections.abc import Iterator

import pytest

from app.engine.deliver.backoff import RouteBackoff
from app.engine.steps.route import Route

FIRST, SECOND, OTHER = ((None, "orders", number) for number in range(3))


class Clock:
    """A clock that a test moves."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock at some time."""
    return Clock()


@pytest.fixture
def failures(clock: Clock) -> RouteBackoff:
    """An empty record of failures."""
    return RouteBackoff(clock)


def backoffs(failures: RouteBackoff, clock: Clock, route: Route) -> Iterator[float]:
    """Fail again and again, each time as soon as the way is free."""
    while True:
        failures.trying(route)
        backoff_s = failures.failed(route, ())
        assert backoff_s is not None
        yield backoff_s
        clock.now_s += backoff_s


def test_a_way_that_fails_again_waits_longer_up_to_a_bound(failures: RouteBackoff, clock: Clock) -> None:
    lengths = [length for length, _ in zip(backoffs(failures, clock, FIRST), range(12), strict=False)]

    assert 0.125 <= lengths[0] <= 0.25
    assert all(2.5 <= length <= 5 for length in lengths[6:])
    assert failures.waits(FIRST)
    assert not failures.waits(OTHER)
    clock.now_s += 5
    assert not failures.waits(FIRST)


def test_destinations_with_the_same_leader_wait_and_are_retried_as_one(failures: RouteBackoff, clock: Clock) -> None:
    failures.failed(FIRST, [FIRST, SECOND])
    assert failures.waits(FIRST)
    assert failures.waits(SECOND)
    assert failures.failed(SECOND, [FIRST, SECOND]) is None  # it was on its way at the same time

    clock.now_s += 1
    assert not failures.waits(SECOND)
    failures.trying(FIRST)
    assert failures.waits(SECOND)
    failures.taken(FIRST)
    assert not failures.waits(SECOND)
    assert failures.seconds(SECOND) == 0


def test_a_message_without_an_outcome_does_not_block_the_retry_forever(failures: RouteBackoff, clock: Clock) -> None:
    failures.failed(FIRST, ())
    clock.now_s += 1
    failures.trying(FIRST)
    clock.now_s += 10

    assert not failures.waits(FIRST)


def test_a_way_that_is_held_waits_until_it_is_released(failures: RouteBackoff, clock: Clock) -> None:
    failures.failed(FIRST, [SECOND])
    release = failures.hold(SECOND)
    clock.now_s += 1_000
    assert failures.waits(FIRST)
    assert failures.seconds(FIRST) == pytest.approx(1_000)

    assert failures.failed(OTHER, [FIRST]) is None  # it waits with the held messages
    assert failures.waits(OTHER)

    release()
    assert not failures.waits(FIRST)
    assert not failures.waits(OTHER)
    failures.failed(FIRST, ())
    release()  # later failures stay
    assert failures.waits(FIRST)
    assert failures.seconds(FIRST) < math.inf
