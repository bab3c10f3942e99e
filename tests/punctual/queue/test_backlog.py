"""How far the worker is behind, on a clock of the test's own."""

from typing import Any

from punctual.queue.backlog import Backlog


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Sent:
    def __init__(self) -> None:
        self.ends: dict[int, int] = {}


def test_the_lag_is_the_age_of_the_oldest_record_that_the_worker_has_not_read() -> None:
    clock, sent = Clock(), Sent()
    connection: Any = sent
    backlog = Backlog(connection, clock)
    backlog.note()
    assert backlog.lag_s == 0

    for clock.now, ends in ((1.0, {0: 10}), (2.0, {0: 20, 1: 5}), (3.0, {0: 20, 1: 5}), (4.0, {0: 30, 1: 5})):
        sent.ends = ends
        backlog.note()
    lags = []
    for committed in ({0: 0}, {0: 10}, {0: 11}, {0: 21, 1: 5}, {0: 21, 1: 6}, {0: 30, 1: 9}, {0: 31, 1: 9}):
        backlog.read(committed)
        lags.append(backlog.lag_s)

    assert lags == [3, 3, 2, 2, 0, 0, 0]


def test_a_worker_that_does_not_go_on_at_all_is_away_and_not_behind() -> None:
    clock, sent = Clock(), Sent()
    connection: Any = sent
    backlog = Backlog(connection, clock)
    sent.ends = {0: 10}
    backlog.note()
    clock.now = 5
    backlog.read({0: 1})
    assert (backlog.exceeds(4), backlog.exceeds(6)) == (True, False)

    clock.now = 30
    backlog.read({0: 1})
    assert not backlog.exceeds(4)
    backlog.read({0: 2})
    assert backlog.exceeds(4)


def test_without_known_positions_there_is_no_lag() -> None:
    clock, sent = Clock(), Sent()
    connection: Any = sent
    backlog = Backlog(connection, clock)
    sent.ends = {0: 10, 1: 10}
    backlog.note()
    clock.now = 5
    backlog.read({})

    assert backlog.lag_s == 0
