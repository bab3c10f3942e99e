"""A worker's own parts, assembled on a simulated clock and brokers in memory, and the errors of the simulation.

SimulationError
├── NoInput   the worker reads no requests from that topic
├── Inside    a test's `respond` has called the simulation
└── Stuck     the simulated installation does not become idle
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from app.dev.testing.brokers import Brokers, Web
from app.dev.testing.records import Post, Record
from app.dev.testing.simulated_time import SimulatedClock, SimulatedLoop
from app.engine.commit.journal import Journal
from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.deliver.dispatcher import Dispatcher
from app.engine.deliver.posts import Posts
from app.engine.due.due_loop import DueLoop
from app.engine.due.series_pace import SeriesPace
from app.engine.ingest.quotas import Quotas, namespace_rule
from app.engine.partition.partition import Partition
from app.engine.partition.services import Services
from app.engine.throttle.control import Control, decode
from app.engine.throttle.throttle import Throttle
from app.engine.topics import internal_topics
from app.settings.settings import Settings
from tables import PartitionStore, keys

if TYPE_CHECKING:
    from punctual.contract.destination import Destination
    from punctual.contract.record import Record as NativeRecord


class SimulationError(Exception):
    """The simulation cannot go on; the message says why, and what to do."""


class NoInput(SimulationError):
    """A record was produced to a topic that the worker does not read."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name the topic and the partition."""
        super().__init__(
            f"Punctual reads no requests from {topic} partition {partition}. Check its DELAY_APP_ID, DELAY_INPUTS "
            "and DELAY_PARTITIONS. Set them with Options(settings={…}) in the fixture delayed_options."
        )


class Stuck(SimulationError):
    """The simulated installation does not become idle."""

    def __init__(self, now_ms: int) -> None:
        """Name the simulated time."""
        super().__init__(
            f"at {now_ms} ms the simulated Punctual does not become idle. This is a bug: please report it."
        )


class Inside(SimulationError):
    """A test's `respond` has called the simulation that is calling it."""

    def __init__(self) -> None:
        """Suggest an alternative."""
        super().__init__(
            "respond() is called while the simulation runs, so it cannot call the simulation. Record the request in "
            "respond(), and react to it after advance() has returned."
        )


#: The maximum sizes of a row and of a record: a topic's default, which for rows leaves room for their other fields.
_ROW_BYTES, _RECORD_BYTES = 1 << 20, 1_048_588
#: The simulated seconds between looks while the parts work, and the maximum number of looks before it is an error.
_STEP_S, _STEPS = 0.005, 100_000


class _DueLoop(DueLoop):
    """A due loop that remembers a request to look again."""

    notified = False

    def notify(self, _: Partition | None = None) -> None:
        self.notified = True


class Installation:
    """One worker with all partitions. It must be created and used on the simulated loop."""

    def __init__(
        self,
        settings: Settings,
        destinations: Mapping[str, int] | None,
        clock: SimulatedClock,
        respond: Callable[[Post], int],
        directory: Path,
    ) -> None:
        """Assemble the parts, and start them."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop), "time is simulated there alone"
        self._loop, self.settings, self.clock = loop, settings, clock
        own = {topic: number for topic, (number, _) in internal_topics.plan(settings.topics).items()}
        self.brokers = Brokers(clock, own, destinations)
        self.brokers.left_out = {settings.topics.changelog}
        self._inputs, self._controls_topic = (
            {*settings.topics.inputs, settings.topics.forwards},
            settings.topics.controls,
        )
        self.brokers.told = self._take
        #: The errors of partitions and of the test's own functions.
        self._failures: list[BaseException] = []
        self.web = Web(clock, respond, self._failures.append)
        of = namespace_rule(settings.topics.namespaces, settings.topics.inputs)
        self.stores = {
            number: PartitionStore(directory / f"{number}.db", of) for number in range(settings.topics.partitions)
        }
        self._partitions: dict[int, Partition] = {}
        self._controls: dict[Destination, Control] = {}
        self._due = self._due_loop(destinations)
        self._offers = set[asyncio.Future[None]]()
        self._start()

    def _due_loop(self, destinations: Mapping[str, int] | None) -> _DueLoop:
        targets: dict[str | None, Any] = {None: DestinationCluster(*self._ends(self.brokers))}
        for name in self.settings.kafka.clusters:
            elsewhere = Brokers(self.clock, {}, destinations, name)
            elsewhere.written = self.brokers.written
            targets[name] = DestinationCluster(*self._ends(elsewhere))
        dispatcher = Dispatcher(self.settings.destinations, self.clock, targets)
        posts = Posts(self.settings.topics, self.settings.destinations, self.clock, "simulated", self.web)
        throttle = Throttle(
            self.settings.kafka, self.settings.topics, self.settings.destinations, self.clock, self._controls
        )
        return _DueLoop(self.settings, self.clock, dispatcher, self._partitions, posts=posts, throttle=throttle)

    @staticmethod
    def _ends(brokers: Brokers) -> tuple[Any, Any]:
        """Return the substitutes of a cluster and of its sender."""
        return brokers, brokers

    def _start(self) -> None:
        cluster, sender = self._ends(self.brokers)
        table: Any = SimpleNamespace(stores=self.stores)
        journal = Journal(self.settings.topics, self.settings.engine, cluster, sender, table)
        limits = internal_topics.TopicLimits(_ROW_BYTES, _RECORD_BYTES, _RECORD_BYTES)
        # There are no other writers, and a look every five seconds would make a simulated year slow.
        quotas = (
            Quotas(self.settings.topics, self.stores, (), {}, self._loop.time) if self.settings.topics.quotas else None
        )
        if quotas is not None and quotas.rates is not None:
            self._due.rows.pace = SeriesPace(quotas.rates)
        services = Services(
            self.settings, self.clock, journal, self.brokers, limits, quotas=quotas, check_alone_s=math.inf
        )
        for number, store in self.stores.items():
            partition = self._partitions[number] = Partition(number, services, self._due)
            partition.start(store, self._failures.append)
            partition.go_live()

    async def stop(self) -> None:
        """Stop all parts, and close the stores."""
        await self._due.stop()
        for partition in self._partitions.values():
            await partition.pause(0)
        for store in self.stores.values():
            store.close()

    # input -----------------------------------------------------------------------------------------------------------
    def _take(self, record: Record) -> None:
        if record.topic in self._inputs:
            offered = self._partitions[record.partition].offer([cast("NativeRecord", record)])
            self._offers.add(offered)
            offered.add_done_callback(self._offers.discard)
        elif record.topic == self._controls_topic:
            to, control = decode(record.key, record.value)
            if control is None:
                self._controls.pop(to, None)
            else:
                self._controls[to] = control
            self._due.obey()

    # time ------------------------------------------------------------------------------------------------------------
    async def advance(self, until_ms: int) -> None:
        """Let time pass until `until_ms`, with a stop at each time at which a message is due or tried again.

        Raises the first error of any part.
        """
        looks = 0
        while True:
            await self._fire()
            now_ms, moment_ms = self.clock.wall_ms(), self._next_ms()
            if moment_ms > until_ms:
                break
            looks = looks + 1 if moment_ms <= now_ms else 0
            if looks > _STEPS:
                raise Stuck(now_ms)
            self._move_to(max(now_ms, math.ceil(moment_ms)))
        self._move_to(until_ms)

    def _move_to(self, now_ms: int) -> None:
        self._loop.skip((now_ms - self.clock.wall_ms()) / 1000)
        self.clock.move_to(now_ms)

    async def _fire(self) -> None:
        """Do all work that is due now."""
        await self._rest()  # expired timers run first
        while True:
            self._due.notified = False
            self._wait_s = self._due.cycle(self.clock.now_ms())
            await self._rest()
            if not self._due.notified:
                return

    async def _rest(self) -> None:
        """Wait until no part has anything left to do at this time."""
        for _ in range(_STEPS):
            await asyncio.sleep(_STEP_S)  # it ends when no task is ready any more
            if self._failures:
                raise self._failures[0]
            if not self._offers and not any(partition.claims for partition in self._partitions.values()):
                return
        raise Stuck(self.clock.wall_ms())

    def _next_ms(self) -> float:
        """Return the next time at which there may be work; infinite without any."""
        now_ms, moments = self.clock.wall_ms(), [math.inf]
        for partition in self._partitions.values():
            in_flight = partition.in_flight
            row = partition.store.next_row(in_flight.cursor)
            next_try_ms = in_flight.tries.next_ms if in_flight.tries else None
            if row is not None:
                moments.append(keys.due_of(row))
            if next_try_ms is not None:
                moments.append(next_try_ms)
            for to in in_flight.aside:
                control = self._due.throttle.paused(to)
                if control is None:
                    moments.append(now_ms + self._wait_s * 1000)
                elif control.until_ms is not None:
                    moments.append(control.until_ms)
        until_s = self._loop.until_timer()
        if until_s is not None:
            moments.append(now_ms + until_s * 1000)
        return min(moments)
