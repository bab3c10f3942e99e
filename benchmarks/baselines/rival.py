"""Another measured system: its processes, and its progress as seen in Kafka."""

import tempfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from app.dev.broker.process import GuardedProcess
from benchmarks import topics
from benchmarks.clock import now_ms, wait_for
from benchmarks.errors import ProcessFailed
from benchmarks.target import Target
from benchmarks.worker import log_end

#: More than Punctual gets: a JVM is slow until it has compiled what runs.
_WARM_UP = 20_000
PARTITIONS = 4


class Rival(Target):
    """A system that reads requests as Punctual does; its progress is measured from outside."""

    #: A count that has not moved for this time is final.
    quiet_ms = 1_000
    poll_s = 0.02

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self._processes: list[tuple[str, GuardedProcess, Path]] = []
        self._moved_ms = 0

    def set_up(self, stack: ExitStack) -> None:
        """Create its topics and start it."""
        stack.callback(topics.delete_all, self.bootstrap, self.app_id)
        for topic in (self.requests, self.out):
            topics.create(self.bootstrap, topic, PARTITIONS, 1)
        self.ends = topics.Ends(self.bootstrap)
        stack.callback(self.ends.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="punctual-bench-")))
        self.launch(directory, stack)
        self.send(self.plan("warm", _WARM_UP, now_ms(), spread_ms=1_000))
        self.wait_settled()

    @abstractmethod
    def launch(self, directory: Path, stack: ExitStack) -> None:
        """Start its processes, by `start`."""

    @abstractmethod
    def requests_taken(self) -> int:
        """Return how many requests it has taken for good, at least."""

    def start(self, name: str, command: list[str], directory: Path, stack: ExitStack) -> None:
        """Start a process that counts; it ends with `stack`."""
        log = directory / f"{name}.log"
        with log.open("ab") as file:
            process = GuardedProcess(command, file, None)
        stack.callback(process.abandon)
        self._processes.append((name, process, log))

    @property
    def pids(self) -> Sequence[int]:
        """The ids of its processes."""
        return [process.pid for _, process, _ in self._processes]

    def wait_accepted(self) -> int:
        """Return when it has taken all requests; return the time in epoch milliseconds."""

        def accepted() -> bool:
            self.check()
            return self.requests_taken() >= self.sent

        return wait_for(accepted, self._limit_s, f"{self.name}: {self.sent} requests")

    def wait_taken(self) -> None:
        """Return when it has taken all requests, and stands still."""
        self.wait_until((self.requests_taken, self.sent))

    def wait_settled(self) -> None:
        """Return when all messages but those far ahead are delivered, and the counts do not move."""
        self.wait_until((self.delivered, self.sent - self.far), (self.requests_taken, self.sent))

    def durable_ms(self) -> int:
        """Return when its counts last moved."""
        return self._moved_ms

    def delivered(self) -> int:
        """Return how many messages are at the destination."""
        return self.ends.total(self.out)

    def wait_until(self, *counts: tuple[Callable[[], int], int]) -> None:
        """Return when each count is reached in turn, and none moves; each is read once the earlier ones are there."""
        last = list[int]()

        def quiet() -> bool:
            nonlocal last
            self.check()
            now, values = now_ms(), list[int]()
            for count, goal in counts:
                values.append(count())
                if values[-1] < goal:
                    break
            if values != last:
                last, self._moved_ms = values, now
            complete = len(values) == len(counts) and values[-1] >= counts[-1][1]
            return complete and now - self._moved_ms > self.quiet_ms

        goals = ", ".join(str(goal) for _, goal in counts)
        wait_for(quiet, self._limit_s, f"{self.name}: {goals} messages", self.poll_s)

    def check(self) -> None:
        """Check that all processes run. Raises ProcessFailed with the end of a log."""
        for name, process, log in self._processes:
            code = process.exit_code()
            if code is not None:
                raise ProcessFailed(name, code, log_end(log))
