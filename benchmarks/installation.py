"""One installation of Punctual that is measured: its topics and its workers."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import json

from benchmarks import kernel, topics
from benchmarks.clock import now_ms, wait_for
from benchmarks.errors import TooSlow
from benchmarks.progress import Progress, State
from benchmarks.target import Target
from benchmarks.worker import Worker

_WARM_UP = 500


def worker_settings() -> dict[str, str]:
    """Return the settings of every measured worker: the environment's, by default those the figures stand for."""
    environment = {name: value for name, value in os.environ.items() if name.startswith("DELAY_")}
    return {"DELAY_PARTITIONS": "4", "DELAY_REPLICATION_FACTOR": "1", "DELAY_DESTINATIONS": "*", **environment}


class Installation(Target):
    """A fresh installation with `workers` workers."""

    def __init__(self, bootstrap: str, name: str, *, workers: int = 1, **settings: str) -> None:
        super().__init__(bootstrap, name)
        self._settings, self._count = {**worker_settings(), **settings}, workers
        self.workers: list[Worker] = []

    def set_up(self, stack: ExitStack) -> None:
        """Start the workers."""
        stack.callback(topics.delete_all, self.bootstrap, self.app_id)
        settings = {**self._settings, "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap, "DELAY_APP_ID": self.app_id}
        for _ in range(self._count):
            self.workers.append(Worker(Path(tempfile.mkdtemp(prefix="punctual-bench-")), settings))
            stack.callback(self.workers[-1].close)
        partitions, replicas = (int(self._settings[f"DELAY_{it}"]) for it in ("PARTITIONS", "REPLICATION_FACTOR"))
        topics.create(self.bootstrap, self.out, partitions, replicas)
        for worker in self.workers:
            worker.start()
        for worker in self.workers:
            worker.wait_ready()
            kernel.note(worker.kernel())
        self.progress = Progress(self.bootstrap, self.app_id)
        stack.callback(self.progress.close)
        self.send(self.plan("warm", _WARM_UP, now_ms(), spread_ms=1_000))
        self.wait_settled()

    @property
    def worker(self) -> Worker:
        """The only worker, or the first."""
        return self.workers[0]

    @property
    def pids(self) -> Sequence[int]:
        """The process ids of the workers."""
        return [pid for worker in self.workers for pid in worker.pids]

    def wait_accepted(self) -> int:
        """Return when the workers' group has committed all requests; return the time in epoch milliseconds.

        Commits come every 250 ms, so the time is at most 250 ms too late.
        """
        committed = topics.Committed(self.bootstrap, self.app_id, self.requests)
        try:
            return wait_for(lambda: self._runs() and committed.total() >= self.sent, self._limit_s, "Ingest")
        finally:
            committed.close()

    def wait_taken(self) -> State:
        """Return the workers' state once their positions have all requests."""
        return self._wait(self.sent, None)

    def wait_settled(self) -> State:
        """Return the workers' state once they have all requests, and all but far-ahead messages are delivered."""
        return self._wait(self.sent, self.far)

    def _wait(self, read: int, pending: int | None) -> State:
        since, last = now_ms(), State(0, 0, 0)

        def reached() -> bool:
            nonlocal last
            self._runs()
            last = self.progress.state(since)
            complete = last.partitions == int(self._settings["DELAY_PARTITIONS"]) and last.read >= read
            return complete and pending in (None, last.pending)

        goal = "any" if pending is None else pending
        try:
            wait_for(reached, self._limit_s, f"{self.name}: reading {read} requests, then {goal} pending,")
        except TooSlow as error:
            error.add_note(f"Its partitions report: {last}. At the destination: {self._look().faults() or 'all well'}.")
            error.add_note(f"The end of its log:\n{self.worker.log_end()}")
            raise
        return last

    def _runs(self) -> bool:
        for worker in self.workers:
            worker.check()
        return True

    def taken_at(self) -> Mapping[str, int]:
        """Return what its events say: when the step began that took a message in."""
        events = (json.decode(message.value()) for message in topics.read(self.bootstrap, f"{self.app_id}-events"))
        return {event["id"]: event["at"] for event in events if event["event"] == "accepted"}

    def durable_ms(self) -> int:
        """Return when the changelog was last appended to: the workers' last step, to the millisecond."""
        return topics.last_append_ms(self.bootstrap, f"{self.app_id}-delays-changelog")
