"""Requests that are sent again, as a gateway, a bulk job or a rescue may, are delivered once inside their window."""

from collections.abc import Callable

import pytest

from tables import PartitionStore
from tests.harness.case import Case
from tests.harness.kafka import now_ms
from tests.harness.waiting import eventually
from tests.harness.worker import Worker

pytestmark = pytest.mark.slow

IDS = [f"order-{number}" for number in range(20)]
_SHORT_MS = 4_000


def lose_nothing(_: Worker) -> None:
    """Leave a worker alone."""


def lose_disk(worker: Worker) -> None:
    """Kill a worker and take its disk away."""
    worker.kill()
    worker.wipe()


LOSSES: list[Callable[[Worker], None]] = [lose_nothing, Worker.kill, lose_disk]


def send(case: Case, due: int, window_ms: int) -> None:
    """Send all requests; each time they are the same."""
    for id_ in IDS:
        case.requests.schedule(id_, due, case.out, b"pay", dedupe=str(window_ms))
    case.requests.flush()


def wait_told(case: Case, kind: str, times: int) -> None:
    """Wait until there are `times` events of a kind."""
    eventually(lambda: len(case.account().told(kind)) == times, what=f"{times} times {kind}")


def copies(case: Case) -> int:
    """Count all deliveries."""
    return sum(len(records) for records in case.deliveries().copies.values())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_request_sent_again_is_dropped_after_a_crash_and_after_the_disk_is_lost(guarantee: str, case: Case) -> None:
    with case.worker(env={"DELAY_GUARANTEE": guarantee}) as worker:
        worker.start().wait_ready()
        due = now_ms() + 500
        send(case, due, 3_600_000)
        case.wait_delivered(set(IDS))
        case.settled()
        for again, lose in enumerate(LOSSES, 1):
            lose(worker)
            if not worker.alive:
                worker.start().wait_ready()
            send(case, due, 3_600_000)
            wait_told(case, "duplicate", again * len(IDS))
        assert copies(case) == len(IDS)
        send(case, due + 1, 3_600_000)  # another due time is another message
        eventually(lambda: copies(case) == 2 * len(IDS), what="the delivery of the other messages")
        case.settled()


def test_a_request_sent_again_after_its_window_is_delivered_and_its_id_is_forgotten(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        due = now_ms() + 300
        send(case, due, _SHORT_MS)
        case.wait_delivered(set(IDS))
        send(case, due, _SHORT_MS)
        wait_told(case, "duplicate", len(IDS))
        eventually(lambda: now_ms() > due + 2 * _SHORT_MS, what="the end of the window")
        send(case, due, 0)
        eventually(lambda: copies(case) == 2 * len(IDS), what="the delivery after the window")
        case.settled()
        worker.stop()
        assert [remembered(worker, number) for number in range(case.partitions)] == [0] * case.partitions


def remembered(worker: Worker, number: int) -> int:
    """Return the number of deliveries that a stopped worker's database remembers."""
    store = PartitionStore(worker.tables()[number])
    try:
        return store.delivered.count
    finally:
        store.close()
