"""One run of a scenario: an installation under traffic, its faults, and their result."""

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from app.dev.broker import Broker
from punctual.contract.home import home_partition
from tests.chaos.ground import bootstrap_of
from tests.chaos.traffic import Traffic
from tests.chaos.verdict import Verdict, judge
from tests.harness.account import pending_of
from tests.harness.kafka import create_topic, now_ms, read
from tests.harness.scan import check_image
from tests.harness.worker import Worker

_T = TypeVar("_T")

_POLL_S = 0.5
#: How long after the last due time everything may take to come out.
_DRAIN_S = 90.0


@dataclass
class Run:
    """An installation on a cluster; leave the `with` block and its workers are gone.

    Args:
        cluster: the brokers.
        directory: for data directories and logs.
        guarantee: `at_least_once` or `exactly_once`.
        seed: of everything that is chosen at random.
        short: whether this is the form for every change, of a minute at most, or the long one.
        partitions: of the installation.
        max_in_flight: `DELAY_MAX_IN_FLIGHT`.
    """

    cluster: list[Broker]
    directory: Path
    guarantee: str
    seed: int
    short: bool
    partitions: int = 8
    max_in_flight: int = 200
    done: Counter[str] = field(default_factory=Counter)
    """Faults and how often each was caused."""
    measured: dict[str, int] = field(default_factory=dict)
    """What else was measured, in milliseconds or pieces as the name says."""
    may_repeat: int = 0
    """How many duplicates the promise allows so far."""
    fast_ms: int = 0
    """How far a worker's clock is ahead, and how early a message may arrive by the brokers' clock."""
    broken: list[str] = field(default_factory=list)
    """Sentences on what else was promised and did not hold."""
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """What there is to look at when everything has come out."""

    def __post_init__(self) -> None:
        self.bootstrap = bootstrap_of(self.cluster)
        self.replicas = min(3, len(self.cluster))
        self.random = random.Random(self.seed)  # noqa: S311 - it chooses faults
        self.app_id = f"chaos-{uuid.uuid4().hex[:8]}"
        self.outs = [self.create_topic(f"{self.app_id}-to-{name}", 4) for name in ("orders", "payments")]
        self._workers: list[Worker] = []
        self._stack = ExitStack()
        #: Contexts that act upon workers by themselves; they end before the workers.
        self._watches = ExitStack()
        self._traffic: Traffic | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            self._watches.close()

    def sizes(self, short: int, long: int) -> int:
        """Return the one or the other, by the form."""
        return short if self.short else long

    def rounds(self, short: int, long: int) -> range:
        """Count rounds from 1, as many as `sizes` gives."""
        return range(1, self.sizes(short, long) + 1)

    def create_topic(self, topic: str, partitions: int, *, min_insync: int = 2) -> str:
        """Create a destination, whose records get the brokers' time."""
        config = {"min_insync_replicas": str(min_insync)} if self.replicas > 1 else {}
        return create_topic(self.bootstrap, topic, partitions, self.replicas, **config)

    def worker(self, name: str, *, env: Mapping[str, str] | None = None, **options: Any) -> Worker:
        """Make a worker with a data directory of this name; it ends with the run."""
        settings = {
            "DELAY_GUARANTEE": self.guarantee,
            "DELAY_MAX_IN_FLIGHT": str(self.max_in_flight),
            "DELAY_REPLICATION_FACTOR": str(self.replicas),
            **(env or {}),
        }
        bootstrap = options.pop("bootstrap", self.bootstrap)
        made = Worker(
            bootstrap, self.app_id, self.directory / name, partitions=self.partitions, env=settings, **options
        )
        self._workers.append(self._stack.enter_context(made))
        return made

    def two_workers(self) -> list[Worker]:
        """Start two workers, the second one once the first one serves.

        With exactly-once, a worker ends itself if the one that starts beside it takes its transactions over, and its
        supervisor starts it again.
        """
        workers = [self.worker("one"), self.worker("two")]
        for worker in workers:
            worker.start().wait_ready()
        return workers

    def enter(self, context: AbstractContextManager[_T]) -> _T:
        """Enter something that is left when the run is over."""
        return self._stack.enter_context(context)

    def watch(self, watcher: AbstractContextManager[_T]) -> _T:
        """Enter a context that acts upon workers by itself; it ends before workers are stopped."""
        return self._watches.enter_context(watcher)

    def did(self, what: str, times: int = 1) -> None:
        """Count a fault."""
        self.done[what] += times

    def expect(self, held: object, sentence: str) -> None:
        """Record a violation unless `held`; `sentence` describes it."""
        if not held:
            self.broken.append(sentence)

    def measure(self, name: str, value: int) -> None:
        """Note the largest of the values under a name."""
        self.measured[name] = max(value, self.measured.get(name, value))

    def crashed(self, worker: Worker) -> None:
        """Count a worker's crash: its messages in flight may be delivered twice, unless exactly once."""
        if self.guarantee == "at_least_once":
            self.may_repeat += len(worker.assigned) * self.max_in_flight

    def kill(self, worker: Worker) -> None:
        """Kill a worker with SIGKILL."""
        self.crashed(worker)
        worker.kill()
        self.did("kill -9")

    @contextmanager
    def traffic(self, rate: float, **options: Any) -> Iterator[Traffic]:
        """Send messages, a `kind` of traffic, at a steady rate during the block; the verdict judges their
        deliveries."""
        assert self._traffic is None, "one traffic a run"
        outs = options.pop("outs", self.outs)
        if self.short:
            options = {"lead_ms": (300, 5_000), "far_ms": (14_000, 16_000), **options}
        made = options.pop("kind", Traffic)(
            self.bootstrap, self.app_id, outs, self.partitions, rate, self.random, **options
        )
        self._traffic = made
        with made:
            yield made

    def longest_ms(self, begin_ms: int, end_ms: int, partitions: Collection[int] | None = None) -> int:
        """Return the maximum lateness of first copies of messages due between the two, in `partitions` or in all."""
        return self._late_ms(self.outs, begin_ms, end_ms, partitions)[-1]

    def p99_ms(self, outs: Collection[str], begin_ms: int, end_ms: int) -> int:
        """Return how late all first copies but one in a hundred were at most that fell due between the two."""
        late = self._late_ms(outs, begin_ms, end_ms, None)
        return late[int(len(late) * 0.99)]

    def _late_ms(
        self, outs: Collection[str], begin_ms: int, end_ms: int, partitions: Collection[int] | None
    ) -> list[int]:
        late: dict[str, int] = {}
        for out in outs:
            for record in read(self.bootstrap, out):
                id_, due = record.header("delay-id"), int(record.header("delay-due"))
                home = home_partition(id_, {f"{self.app_id}-requests"}, self.partitions)
                if begin_ms <= due < end_ms and (partitions is None or home in partitions):
                    late.setdefault(id_, record.timestamp_ms - due)
        assert late, "nothing was due"
        return sorted(late.values())

    def verdict(self) -> Verdict:
        """Wait until everything that is due has come out, and count; workers must be running."""
        traffic = self._traffic
        assert traffic is not None, "there has been no traffic"
        time.sleep(max(0, traffic.last_due_ms - now_ms()) / 1000)
        until = time.monotonic() + _DRAIN_S
        while sum(pending_of(self.bootstrap, self.app_id).values()) != traffic.staying and time.monotonic() < until:
            time.sleep(_POLL_S)
        while True:
            time.sleep(2 * _POLL_S)
            found = judge(traffic, [broker.directory / "logs" for broker in self.cluster], fast_ms=self.fast_ms)
            if not found.broken or time.monotonic() > until:
                break
        for look in self.afterwards:
            look()
        return found

    def check_images(self) -> None:
        """Stop all workers, and check each database against the changelog; for runs of moderate size."""
        self._watches.close()  # it would take a stop for a failure
        for worker in self._workers:
            if worker.alive:
                worker.stop()
            check_image(worker, self.bootstrap, self.directory / "image")
