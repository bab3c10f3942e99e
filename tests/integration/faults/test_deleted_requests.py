"""Requests that are deleted before they are read are lost; the log says which ones, also while the worker runs."""

import os
import signal
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.harness.case import Case
from tests.harness.kafka import create_topic, ends, now_ms
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker

pytestmark = pytest.mark.slow

LOST = 5
#: By then the fetch is answered that was on its way when a worker was stopped: brokers wait for 100 ms.
_ANSWERED_S = 1.0


def ask(case: Case, name: str) -> None:
    for number in range(LOST):
        case.schedule(f"{name}-{number}", now_ms() + 3_600_000, partition=0)
    case.requests.flush()


def delete(case: Case) -> int:
    """Delete all requests of the first partition; return how many there have been."""
    end = ends(case.bootstrap, case.requests.topic)[0]
    place = TopicPartition(case.requests.topic, 0, end)
    admin = AdminClient({"bootstrap.servers": case.bootstrap, "log_level": 0})
    admin.delete_records([place])[place].result(LIMIT_S)
    return end


def told(case: Case, worker: Worker, first: int, end: int) -> bool:
    said = f"{case.requests.topic}-0: records {first} to {end - 1} were deleted before they were read"
    return worker.log.count(said) == 1


def test_requests_that_were_deleted_before_any_was_read_are_named_at_the_next_start(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        worker.kill()
        ask(case, "lost")
        end = delete(case)
        worker.start().wait_ready()
        eventually(lambda: told(case, worker, 0, end), what="the sentence")


def test_requests_that_were_deleted_before_the_installation_began_are_none_of_its_own(case: Case) -> None:
    create_topic(case.bootstrap, case.requests.topic, case.partitions)
    ask(case, "former")
    delete(case)
    with case.worker() as worker:
        for _ in range(2):
            worker.start().wait_ready()
            assert "deleted before they were read" not in worker.log
            worker.kill()
        worker.start().wait_ready()
        ask(case, "later")
        case.wait_accepted({f"later-{number}" for number in range(LOST)})
        assert "deleted before they were read" not in worker.log


def test_requests_that_were_deleted_under_a_worker_are_named_and_it_goes_on(case: Case) -> None:
    with case.worker() as worker:
        worker.start().wait_ready()
        ask(case, "read")
        case.wait_accepted({f"read-{number}" for number in range(LOST)})
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            time.sleep(_ANSWERED_S)
            ask(case, "lost")
            end = delete(case)
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        eventually(lambda: told(case, worker, LOST, end), what="the sentence")
        ask(case, "later")
        case.wait_accepted({f"later-{number}" for number in range(LOST)})
        assert worker.alive
