"""The broker that all processes of a test run share. Threads stand for processes: each opens the lock for itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.harness import shared_broker as module
from tests.harness.shared_broker import shared_broker
from tests.harness.waiting import LIMIT_S

Said = list[str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """Yield what happens to brokers, which are none."""
    said: Said = []

    @contextmanager
    def broker() -> Iterator[str]:
        name = f"127.0.0.1:{len(said)}"
        said.append(f"{name} starts")
        yield name
        said.append(f"{name} ends")

    monkeypatch.setattr(module, "broker_or_given", broker)
    return said


class Process(Thread):
    """Uses the broker from `start` until `leave` is set."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory, self.servers = directory, ""
        self.uses, self.leave = Event(), Event()

    def run(self) -> None:
        with shared_broker(self.directory) as self.servers:
            self.uses.set()
            self.leave.wait(LIMIT_S)

    def begin(self) -> "Process":
        self.start()
        assert self.uses.wait(LIMIT_S)
        return self

    def end(self) -> None:
        self.leave.set()
        self.join(LIMIT_S)
        assert not self.is_alive()


def test_the_first_process_starts_the_broker_and_stops_it_when_no_other_uses_it(tmp_path: Path, said: Said) -> None:
    first, second = Process(tmp_path).begin(), Process(tmp_path).begin()
    first.leave.set()
    first.join(0.1)

    assert first.servers == second.servers == "127.0.0.1:0"
    assert first.is_alive()
    assert said == ["127.0.0.1:0 starts"]

    second.end()
    first.end()
    assert said == ["127.0.0.1:0 starts", "127.0.0.1:0 ends"]


def test_a_process_that_comes_later_starts_another_broker(tmp_path: Path, said: Said) -> None:
    Process(tmp_path).begin().end()
    later = Process(tmp_path).begin()
    later.end()

    assert later.servers == "127.0.0.1:2"
    assert said == ["127.0.0.1:0 starts", "127.0.0.1:0 ends", "127.0.0.1:2 starts", "127.0.0.1:2 ends"]


def test_processes_that_come_at_once_start_one_broker(tmp_path: Path, said: Said) -> None:
    processes = [Process(tmp_path) for _ in range(5)]
    for process in processes:
        process.start()
    assert all(process.uses.wait(LIMIT_S) for process in processes)
    for process in processes:
        process.leave.set()
    for process in processes:
        process.join(LIMIT_S)

    assert {process.servers for process in processes} == {"127.0.0.1:0"}
    assert said == ["127.0.0.1:0 starts", "127.0.0.1:0 ends"]
