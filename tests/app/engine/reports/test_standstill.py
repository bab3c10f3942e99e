"""A standstill is reported: inputs that are not read, and writes that no broker confirms."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.engine.reports.standstill import NO_ROOM, Standstill


class Intake:
    """Inputs as the test says they are."""

    def __init__(self) -> None:
        self.held_back, self.read, self.ends, self.answers = False, 0, 0, 0
        self.fetched = False

    def position(self, _topic: str, _partition: int) -> int | None:
        return None if self.fetched else self.read

    def end(self, _topic: str, _partition: int) -> int | None:
        return self.ends

    def heard(self, _topic: str, _partition: int) -> float | None:
        return None if self.held_back else self.answers

    def ahead(self, _topic: str, _partition: int) -> bool:
        return self.fetched


class Worker:
    """A worker with one partition, on a clock of the test's."""

    def __init__(self) -> None:
        self.now_s, self.intake = 100.0, Intake()
        store: Any = SimpleNamespace(positions={})
        self.partition: Any = SimpleNamespace(number=3, working=True, store=store)
        self.partition.writer = SimpleNamespace(committing_s=None)
        self.partitions: dict[int, Any] = {3: self.partition}
        self.standstill = Standstill(("requests",), self.intake, self.partitions, lambda: self.now_s)

    def goes_on(self, seconds: int, *, reads: int = 0, asked: int = 0, answered: bool = True) -> None:
        """Let seconds pass; in each of them, this many requests are read, and this many arrive."""
        for _ in range(seconds):
            self.now_s += 1
            self.intake.read += reads
            self.intake.ends += asked
            self.intake.answers += answered
            self.standstill.look()


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_an_idle_worker_stands_still_nowhere(worker: Worker) -> None:
    worker.goes_on(60)
    assert (worker.standstill.reason(), worker.standstill.unread_s(3)) == (None, 0)


def test_an_input_that_is_read_to_its_end_is_healthy_at_any_rate(worker: Worker) -> None:
    worker.intake.ends = 5
    worker.goes_on(60, reads=5, asked=5)
    assert worker.standstill.reason() is None
    assert worker.standstill.unread_s(3) <= 2


def test_an_input_that_is_far_behind_but_makes_progress_reports_how_long_requests_wait(worker: Worker) -> None:
    worker.intake.ends = 1_000
    worker.goes_on(60, reads=1)
    assert (worker.standstill.reason(), worker.standstill.unread_s(3)) == (None, 59)


def test_an_input_without_progress_is_reported(worker: Worker) -> None:
    worker.intake.fetched = True
    worker.goes_on(5, asked=1)
    assert worker.standstill.reason() is None
    worker.goes_on(10, asked=1)
    assert worker.standstill.reason() == "requests in partition 3 of requests have been unread for 14 s"
    worker.intake.fetched, worker.intake.read = False, worker.intake.ends
    worker.goes_on(1)
    assert (worker.standstill.reason(), worker.standstill.unread_s(3)) == (None, 0)


def test_an_input_without_an_answering_broker_is_reported(worker: Worker) -> None:
    worker.goes_on(3)
    worker.goes_on(11, answered=False)
    assert worker.standstill.reason() == "no broker has answered fetches of partition 3 of requests for 11 s"
    worker.goes_on(1)
    assert worker.standstill.reason() is None


def test_a_full_disk_is_reported_at_once(worker: Worker) -> None:
    worker.intake.held_back = True
    worker.goes_on(30)
    assert worker.standstill.reason() == NO_ROOM


@pytest.mark.parametrize("what", ["a step", "a report"])
def test_an_unconfirmed_write_is_reported(worker: Worker, what: str) -> None:
    if what == "a step":
        worker.partition.writer.committing_s = worker.now_s
    else:
        worker.standstill.reporting_s = worker.now_s
    worker.goes_on(10)
    assert worker.standstill.reason() is None
    worker.goes_on(2)
    assert worker.standstill.reason() == "the brokers have not confirmed a write for 12 s"


def test_a_partition_that_has_gone_elsewhere_is_forgotten(worker: Worker) -> None:
    worker.intake.ends = 5
    worker.goes_on(20)
    assert worker.standstill.reason() is not None
    worker.partition.working = False
    worker.goes_on(1)
    assert worker.standstill.reason() is None
