"""The measured system, as the experiments see it: it takes plans, and compares the deliveries with them."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from benchmarks import topics
from benchmarks.clock import now_ms
from benchmarks.errors import PromiseBroken
from benchmarks.generator import Order, Produced
from benchmarks.load import Load
from benchmarks.plan import Plan
from benchmarks.tally import Tally
from benchmarks.wording import WORDINGS

_HOUR_MS = 3_600_000
_SLOWEST_PER_S, _PATIENCE_S = 2_000, 60.0


class Target(ABC):
    """A system with topics of its own, ready and warm inside the `with` block; its end deletes the topics."""

    #: The headers of its requests: one of WORDINGS.
    wording = "native"
    #: Whether it may deliver a message twice without a failure.
    doubles = False

    def __init__(self, bootstrap: str, name: str) -> None:
        self.name, self.bootstrap = name, bootstrap
        self.app_id = f"bench-{name}-{uuid.uuid4().hex[:8]}"
        self.out, self.requests = f"{self.app_id}-out", f"{self.app_id}-requests"
        self._plans: list[Plan] = []
        self._far: list[Plan] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            self.set_up(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # what each system does in its own way ----------------------------------------------------------------------------
    @abstractmethod
    def set_up(self, stack: ExitStack) -> None:
        """Start it, and have `stack` end it."""

    @property
    @abstractmethod
    def pids(self) -> Sequence[int]:
        """The processes whose CPU and memory count."""

    @abstractmethod
    def wait_accepted(self) -> int:
        """Return when it has accepted all requests, in epoch milliseconds."""

    @abstractmethod
    def wait_taken(self) -> object:
        """Return when it holds all that was requested."""

    @abstractmethod
    def wait_settled(self) -> object:
        """Return when it holds the far-ahead messages, and all others are delivered."""

    @abstractmethod
    def durable_ms(self) -> int:
        """Return when its pending messages last changed, to the millisecond if its changelog has the time."""

    def taken_at(self) -> Mapping[str, int]:
        """Return when it accepted each message, by id, in epoch milliseconds; empty if it does not report that."""
        return {}

    # requests --------------------------------------------------------------------------------------------------------
    def plan(self, name: str, count: int, base_ms: int, **more: Any) -> Plan:
        """Plan messages for its destination."""
        return Plan(name=name, to=self.out, count=count, base_ms=base_ms, unit_ms=self.unit_ms, **more)

    def plan_far(self, name: str, count: int, **more: Any) -> Plan:
        """Plan messages that are still pending when all is over: from an hour ahead on, usually one a millisecond."""
        plan = self.plan(name, count, now_ms() + _HOUR_MS, **{"step_us": 1_000, **more})
        self._far.append(plan)
        return plan

    @contextmanager
    def sending(self, plan: Plan) -> Iterator[Load]:
        """Send a plan while the block runs; call the load's `wait` in it."""
        self._plans.append(plan)
        with Load(Order(self.bootstrap, self.requests, plan, self.wording)) as load:
            yield load

    def send(self, plan: Plan) -> Produced:
        """Send a plan and wait until Kafka has it."""
        with self.sending(plan) as load:
            return load.wait()

    @property
    def unit_ms(self) -> int:
        """The unit of its due times: it knows no finer ones."""
        return WORDINGS[self.wording].unit_ms

    @property
    def sent(self) -> int:
        """How many requests have been sent, with those of plans that are being sent."""
        return sum(plan.count for plan in self._plans)

    @property
    def far(self) -> int:
        """How many messages are far ahead."""
        return sum(plan.count for plan in self._far)

    @property
    def _limit_s(self) -> float:
        ahead_ms = max(0, *(plan.last_due_ms - now_ms() for plan in self._plans if plan not in self._far), 0)
        return _PATIENCE_S + ahead_ms / 1000 + self.sent / _SLOWEST_PER_S

    # deliveries ------------------------------------------------------------------------------------------------------
    def tally(self, *, duplicates_allowed: bool = False) -> Tally:
        """Read the destination back and compare; raises PromiseBroken if anything is wrong."""
        tally = self._look()
        faults = tally.faults(duplicates_allowed=duplicates_allowed or self.doubles)
        if faults:
            raise PromiseBroken(self.name, faults)
        return tally

    def _look(self) -> Tally:
        tally = Tally(plan for plan in self._plans if plan not in self._far)
        for message in topics.read(self.bootstrap, self.out):
            headers = dict(message.headers() or [])
            tally.add(message.key(), message.value(), message.timestamp()[1], headers.get(WORDINGS[self.wording].due))
        return tally
