"""One installation that is measured: its topics, its worker, what is asked of it. Nothing of it is left afterwards."""

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from benchmarks import topics
from benchmarks.clock import now_ms, wait_for
from benchmarks.errors import PromiseBroken, TooSlow
from benchmarks.generator import Order, Produced
from benchmarks.load import Load
from benchmarks.plan import Plan
from benchmarks.progress import Progress, State
from benchmarks.tally import Tally
from benchmarks.worker import Worker

_WARM_UP = 500
_HOUR_MS = 3_600_000
_SLOWEST_PER_S, _PATIENCE_S = 2_000, 60.0


def worker_settings() -> dict[str, str]:
    """Give the settings that every measured worker gets: the environment's, by default those the figures stand for."""
    given = {name: value for name, value in os.environ.items() if name.startswith("DELAY_")}
    return {"DELAY_PARTITIONS": "4", "DELAY_REPLICATION_FACTOR": "1", "DELAY_DESTINATIONS": "*", **given}


class Installation:
    """A fresh installation with one worker, ready and warm inside the `with` block."""

    def __init__(self, bootstrap: str, name: str, **settings: str) -> None:
        self.name, self.bootstrap = name, bootstrap
        self.app_id = f"bench-{name}-{uuid.uuid4().hex[:8]}"
        self.out, self.requests = f"{self.app_id}-out", f"{self.app_id}-requests"
        self._settings = {**worker_settings(), **settings}
        self._plans: list[Plan] = []
        self._far: list[Plan] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            stack.callback(topics.delete_all, self.bootstrap, self.app_id)
            settings = {**self._settings, "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap, "DELAY_APP_ID": self.app_id}
            self.worker = Worker(Path(tempfile.mkdtemp(prefix="punctual-bench-")), settings)
            stack.callback(self.worker.close)
            partitions, replicas = (int(settings[f"DELAY_{it}"]) for it in ("PARTITIONS", "REPLICATION_FACTOR"))
            topics.create(self.bootstrap, self.out, partitions, replicas)
            self.worker.start()
            self.worker.wait_ready()
            self.progress = Progress(self.bootstrap, self.app_id)
            stack.callback(self.progress.close)
            self.send(self.plan("warm", _WARM_UP, now_ms(), spread_ms=1_000))
            self.wait_settled()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def plan(self, name: str, count: int, base_ms: int, **more: Any) -> Plan:
        """Plan messages for this installation's destination."""
        return Plan(name=name, to=self.out, count=count, base_ms=base_ms, **more)

    def plan_far(self, name: str, count: int, **more: Any) -> Plan:
        """Plan messages that will still be pending when all is over: one a millisecond, from an hour ahead on."""
        plan = self.plan(name, count, now_ms() + _HOUR_MS, step_us=1_000, **more)
        self._far.append(plan)
        return plan

    @contextmanager
    def sending(self, plan: Plan) -> Iterator[Load]:
        """Send a plan while the block runs; call the load's `wait` in it."""
        self._plans.append(plan)
        with Load(Order(self.bootstrap, self.requests, plan)) as load:
            yield load

    def send(self, plan: Plan) -> Produced:
        """Send a plan and wait until Kafka has it."""
        with self.sending(plan) as load:
            return load.wait()

    @property
    def sent(self) -> int:
        """How many requests have been sent, with those of plans that are being sent."""
        return sum(plan.count for plan in self._plans)

    def wait_accepted(self) -> int:
        """Return when the worker's group has committed all requests; give the time in epoch milliseconds.

        Commits come every 250 ms, so that the time is by so much too late at most.
        """
        committed = topics.Committed(self.bootstrap, self.app_id, self.requests)
        try:
            return wait_for(lambda: self._runs() and committed.total() >= self.sent, self._limit_s, "Ingest")
        finally:
            committed.close()

    def wait_taken(self) -> State:
        """Return when the worker's positions have all requests; give what it reports."""
        return self._wait(self.sent, None)

    def wait_settled(self) -> State:
        """Return when the worker has all requests and what is not far ahead is delivered; give what it reports."""
        return self._wait(self.sent, sum(plan.count for plan in self._far))

    def _wait(self, read: int, pending: int | None) -> State:
        since, last = now_ms(), State(0, 0, 0)

        def reached() -> bool:
            nonlocal last
            self._runs()
            last = self.progress.state(since)
            complete = last.partitions == int(self._settings["DELAY_PARTITIONS"]) and last.read >= read
            return complete and pending in (None, last.pending)

        wanted = "any" if pending is None else pending
        try:
            wait_for(reached, self._limit_s, f"{self.name}: reading {read} requests, then {wanted} pending,")
        except TooSlow as error:
            error.add_note(f"Its partitions report: {last}. At the destination: {self._look().faults() or 'all well'}.")
            error.add_note(f"The end of its log:\n{self.worker.log_end()}")
            raise
        return last

    @property
    def _limit_s(self) -> float:
        ahead_ms = max(0, *(plan.last_due_ms - now_ms() for plan in self._plans if plan not in self._far), 0)
        return _PATIENCE_S + ahead_ms / 1000 + self.sent / _SLOWEST_PER_S

    def _runs(self) -> bool:
        self.worker.check()
        return True

    def durable_ms(self) -> int:
        """Give when the changelog was last appended to: the worker's last step, to the millisecond."""
        return topics.last_append_ms(self.bootstrap, f"{self.app_id}-delays-changelog")

    def tally(self, *, duplicates_allowed: bool = False) -> Tally:
        """Read the destination back and compare; raises PromiseBroken if anything is wrong."""
        tally = self._look()
        faults = tally.faults(duplicates_allowed=duplicates_allowed)
        if faults:
            raise PromiseBroken(self.name, faults)
        return tally

    def _look(self) -> Tally:
        tally = Tally(plan for plan in self._plans if plan not in self._far)
        for message in topics.read(self.bootstrap, self.out):
            headers = dict(message.headers() or [])
            tally.add(message.key(), message.value(), message.timestamp()[1], headers.get("delay-due"))
        return tally
