"""Two workers share an installation; one takes over the partitions that the other leaves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.harness.case import Case
from tests.harness.kafka import now_ms
from tests.harness.pace import usual_ms
from tests.harness.scan import check_image
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

pytestmark = pytest.mark.slow

#: Messages a second.
RATE = 100


@contextmanager
def traffic(case: Case) -> Iterator[None]:
    """Send messages due half a second to a second later, at a steady rate, as long as the block lasts."""
    over = threading.Event()

    def send() -> None:
        number = 0
        while not over.wait(1 / RATE):
            case.schedule(f"message-{number}", now_ms() + 500 + number * 37 % 500)
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()
        case.requests.flush()


def share(case: Case, one: Worker, two: Worker) -> None:
    """Wait until both work on half of the partitions."""
    eventually(lambda: len(one.assigned) == len(two.assigned) == case.partitions // 2, what="the sharing")
    one.wait_ready()
    two.wait_ready()


def pause(case: Case, began_ms: int) -> int:
    """Return the longest lateness of messages due since `began_ms`, as on an idle machine."""
    late = [
        usual_ms(case.expected.due[id_], records[0].timestamp_ms)
        for id_, records in case.deliveries().copies.items()
        if case.expected.due[id_] >= began_ms
    ]
    return max(late)


@pytest.fixture
def case(case: Case) -> Case:
    """An installation of four partitions."""
    return Case(case.bootstrap, case.directory, partitions=4)


def test_no_request_is_skipped_while_a_worker_comes_and_goes(case: Case) -> None:
    with case.worker("one") as one, case.worker("two") as two:
        one.start().wait_ready()
        with traffic(case):
            for leave in (Worker.stop, Worker.kill, Worker.stop):
                two.start().wait_ready()
                share(case, one, two)
                leave(two)
        case.wait_delivered(case.expected.wanted)
        case.settled()
        case.deliveries().check(case.expected, duplicates=case.in_flight)


@pytest.mark.parametrize(
    ("leave", "copies", "limit_ms"),
    [
        pytest.param(Worker.stop, 0, 4_000, id="SIGTERM"),
        pytest.param(Worker.kill, 1, 11_000, id="kill -9", marks=pytest.mark.core),
    ],
)
def test_the_partitions_of_a_leaving_worker_move_without_a_lost_message(
    leave: Callable[[Worker], None],
    copies: int,
    limit_ms: int,
    case: Case,
    record_property: Callable[[str, object], None],
) -> None:
    with case.worker("one") as one, case.worker("two") as two:
        one.start().wait_ready()
        two.start().wait_ready()
        share(case, one, two)
        with traffic(case):
            case.wait_delivered({"message-100"})
            began = now_ms()
            leave(two)
            eventually(lambda: len(one.assigned) == case.partitions, what="the handover")
            known = set(case.expected.due)
            case.wait_delivered(known)
            time_ms = pause(case, began)
            two.start().wait_ready()
            share(case, one, two)
            known = set(case.expected.due)
            case.wait_delivered(known)
        case.wait_delivered(case.expected.wanted)
        case.settled()
        case.deliveries().check(case.expected, duplicates=copies * case.in_flight)
        for worker in (one, two):
            worker.stop()
            check_image(worker, case.bootstrap, case.directory / "image")
    record_property("pause_ms", time_ms)
    assert time_ms < limit_ms
