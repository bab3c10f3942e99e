"""A clock that jumps: no message is early, no request is refused, and all goes on when the clock is right again."""

import time
from collections.abc import Iterator

import pytest

from tests.harness.kafka import now_ms, read
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, Installation, late_ms

pytestmark = pytest.mark.core

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("clock", clock=True) as made:
        yield made


@pytest.fixture(autouse=True)
def right_again(installation: Installation) -> Iterator[None]:
    yield
    installation.worker.shift_clock(0)


def schedule(installation: Installation, to: str, first: int, count: int) -> None:
    """Schedule messages 20 ms apart."""
    for number in range(count):
        due = first + 20 * number
        installation.requests.send({"delay-to": to, "delay-at": str(due)}, None, b"%d" % number)
    installation.requests.flush()


def jump(installation: Installation, by_ms: int, shown: str) -> None:
    """Shift the worker's clock, and wait until the worker has seen it: it does not log each of many jumps."""
    installation.worker.shift_clock(by_ms)
    eventually(
        lambda: abs(1_000 * installation.worker.metric("delay_clock_offset_seconds") - by_ms) < 1_000, what="the jump"
    )
    assert f"the clock jumped by {shown}" in installation.worker.log


def test_a_clock_an_hour_fast_sends_no_message_early(installation: Installation) -> None:
    to, later, first = installation.topic(), installation.topic(), now_ms() + 500
    schedule(installation, to, first, 150)
    schedule(installation, later, now_ms() + HOUR_MS // 2, 50)
    eventually(lambda: list(read(installation.bootstrap, to)))
    jump(installation, HOUR_MS, "+3")
    # By then the worker knows the brokers' time by a report or two, and more messages are due by both clocks.
    eventually(lambda: now_ms() > first + 5_000)
    assert list(read(installation.bootstrap, later)) == []

    installation.worker.shift_clock(0)
    records = installation.wait_for(to, 150)
    assert len(records) == 150
    assert min(late_ms(record) for record in records) >= 0
    assert list(read(installation.bootstrap, later)) == []


def test_requests_are_accepted_while_the_clock_is_an_hour_slow(installation: Installation) -> None:
    """For such a clock every request is from the future."""
    to = installation.topic()
    jump(installation, -HOUR_MS, "-3")
    schedule(installation, to, now_ms() + 300, 100)
    eventually(lambda: pending(installation, to) == 100, what="what is pending")
    assert list(read(installation.bootstrap, to)) == []
    assert list(read(installation.bootstrap, f"{installation.app_id}-dead-letters")) == []

    installation.worker.shift_clock(0)
    assert min(late_ms(record) for record in installation.wait_for(to, 100)) >= 0


def pending(installation: Installation, to: str) -> int:
    """Return the pending messages of a destination, by the progress records."""
    return int(sum(record["pending"].get(to, 0) for record in installation.progress().values()))


def test_a_clock_that_jumps_wildly_sends_no_message_early(installation: Installation) -> None:
    to, first = installation.topic(), now_ms() + 500
    schedule(installation, to, first, 200)
    until = first + 4_000
    jumps = [90_000, -50_000, 2_500, -700, 600, 1_200, HOUR_MS, 0]
    while now_ms() < until:
        for jump in jumps:
            installation.worker.shift_clock(jump)
            time.sleep(0.037)  # some cycles of the due loop, and none of the progress reports
    installation.worker.shift_clock(0)

    records = installation.wait_for(to, 200)
    assert len(records) == 200
    # An offset of up to a second passes for an inaccurate clock, and is only an alarm.
    assert min(late_ms(record) for record in records) >= -1_000


def test_a_worker_that_starts_with_a_fast_clock_waits_until_it_is_right(installation: Installation) -> None:
    to, soon, last = (installation.topic() for _ in range(3))
    schedule(installation, to, now_ms() + HOUR_MS // 2, 20)
    schedule(installation, soon, now_ms() + 2_000, 20)
    eventually(lambda: pending(installation, to) == 20, what="what is pending")
    installation.worker.kill()
    installation.worker.shift_clock(HOUR_MS)
    installation.worker.start().wait_ready()
    eventually(lambda: "off the brokers'" in installation.worker.log, what="an alarm")
    eventually(lambda: len(installation.progress()) == 4)
    assert list(read(installation.bootstrap, to)) == []

    installation.worker.shift_clock(0)
    records = installation.wait_for(soon, 20)
    assert min(late_ms(record) for record in records) >= 0
    schedule(installation, last, now_ms() + 500, 20)
    assert all(late_ms(record) <= ON_TIME_MS for record in installation.wait_for(last, 20))
    assert list(read(installation.bootstrap, to)) == []
