"""A worker put together as app/engine/engine.py does; below it are a simulated broker, disk and clock."""

import asyncio
import itertools
import random
from collections.abc import Callable, Collection, Hashable
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka.errors as kafka

from app.base.errors import NotOwner
from app.base.process.fatal import telling
from app.engine.assembly import dispatcher_and_journal
from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.deliver.posts import Posts
from app.engine.due.due_loop import FIRE_BATCH, DueLoop
from app.engine.due.input_lag import margins_of
from app.engine.due.input_liveness import InputLiveness
from app.engine.ingest.destination_topics import DestinationTopics
from app.engine.ingest.quotas import namespace_rule
from app.engine.ownership.arrival_search import ArrivalSearch
from app.engine.ownership.assignment import Ownership, Stages
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.ownership.input_logs import InputLogs
from app.engine.ownership.partition_catch_up import PartitionCatchUp
from app.engine.ownership.recovery import StoreRecovery
from app.engine.partition.partition import Partition
from app.engine.partition.services import Services
from app.engine.reports.latest_reports import LatestReports, RowVersion
from app.engine.reports.progress import ProgressReporter
from app.engine.reports.watermark import Watermark
from app.engine.steps.route import Route
from app.engine.steps.step import Step
from app.engine.throttle.controls import Controls
from app.engine.throttle.throttle import Throttle
from app.engine.topics.internal_topics import TopicLimits
from app.kafka import Cluster, Sender
from app.kafka.transactions.coordinator import Fenced
from app.settings.settings import Settings
from tables import DelayTable, Entry, NamespaceRule
from tables.changes import PlainRows
from tables.entry import entry_of
from tests.simulation.broker import NODES, Broker
from tests.simulation.clock import WorkerClock
from tests.simulation.consumer import Consumer
from tests.simulation.log import Sent
from tests.simulation.loop import Died, Loop, Process
from tests.simulation.teams import Following, look
from tests.simulation.web import Web  # noqa: TC001 - needed for annotations

#: What ends a worker without being a fault of its code: somebody else has its partition.
EXPECTED = (NotOwner, Fenced)


class Node(NamedTuple):
    """A broker's name."""

    nodeId: int  # noqa: N815 - theirs


class Client:
    """Replaces aiokafka's client."""

    def __init__(self, worker: "Worker", broker: Broker, rnd: random.Random) -> None:
        """Connect `worker` to `broker`."""
        self._worker, self._network, self._rnd = worker, broker.network, rnd
        self._loop = asyncio.get_running_loop()

    @property
    def cluster(self) -> "Client":
        return self

    def brokers(self) -> list[Node]:
        return [Node(node) for node in NODES]

    async def bootstrap(self) -> None:
        """Do no work, unlike the real client."""

    def begin(self, node: int, request: Any, *, group: Hashable) -> "asyncio.Future[Any]":
        return self._loop.create_task(self.send(node, request, group=group))

    async def send(self, node: int, request: Any, *, group: Hashable = 0) -> Any:
        self._worker.check()
        if node in self._network.down - self._network.silent:
            await asyncio.sleep(self._rnd.uniform(0.001, 0.05))
            raise kafka.NodeNotReadyError("simulated")
        answer = self._loop.create_future()
        clock = self._worker.clock
        sent = Sent(self._worker.name, clock.latest_ms(), clock.shift_ms, self._loop.time())
        self._network.connection(self._worker.name, node, group).send(request, answer, sent)
        return await answer


class Table(DelayTable):
    """The table without Faust around it."""

    def __init__(self, directory: str, clock: WorkerClock, of: NamespaceRule | None) -> None:
        """Keep databases under `directory`, which is no real one."""
        self.directory, self._namespace_rule = directory, of
        self._now_ms, self._monotonic_ms = clock.wall_ms, clock.monotonic_ms
        self.__post_init__()

    def path(self, partition: int) -> Path:
        return _Path(f"{self.directory}/{partition}.db")


class _Path(type(Path())):  # type: ignore[misc]
    """A path of a simulated disk."""

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Create no directory, because the path exists."""


class Worker:
    """One process, from its start to its end."""

    def __init__(
        self,
        slot: str,
        life: int,
        loop: Loop,
        broker: Broker,
        settings: Settings,
        shift_ms: int,
        seed: int,
        on_end: "Callable[[Worker, BaseException | None], None]",
    ) -> None:
        """Belong to `slot`, which is its disk and its place in the group."""
        self.slot, self.name = slot, f"{slot}.{life}"
        #: How many rows a partition fires in a cycle.
        self.batch = FIRE_BATCH
        self._loop, self._broker, self._settings, self._on_end = loop, broker, settings, on_end
        self._rnd = random.Random(f"{seed}-{self.name}")  # noqa: S311
        self.process = Process(self.name)
        self.clock = WorkerClock(loop, shift_ms)
        self.ready = False
        #: Whether the group can reach it; an unreachable worker becomes a zombie sooner or later.
        self.reachable = True
        #: Each time that it was given a partition: the second, and the partition.
        self.given: list[tuple[float, int]] = []
        #: Times at which its deliveries in flight were abandoned; of one partition, or of all (None).
        self.breaks: list[tuple[float, int | None]] = []
        #: Whether other workers may own partitions that it takes for its own.
        self.outlived = False
        #: When a row of a source was there to be fired; a row that is removed and put again counts from then on.
        self.applied: dict[tuple[bytes, str], float] = {}
        self._removed = set[bytes]()
        #: Each time that it was chosen to be sent.
        self.claimed: dict[tuple[bytes, str], list[float]] = {}
        #: The most messages of each namespace that it has held at a time.
        self.most: dict[str, int] = {}
        self.miscounted = ""
        self.namespaces, self.forwards = settings.topics.namespaces, settings.topics.forwards
        self.points = 0
        self.web: Web

    # life ------------------------------------------------------------------------------------------------------------
    def spawn(self, work: Any) -> "asyncio.Task[Any]":
        """Run a coroutine as part of this process; an error ends the process."""
        task: asyncio.Task[Any] = self.process.context.run(self._loop.create_task, work)
        task.add_done_callback(telling(self.fatal), context=self.process.context)
        return task

    def fatal(self, error: BaseException) -> None:
        """End the process."""
        if self.process.alive:
            self.end(error)
        raise Died

    def end(self, error: BaseException | None = None) -> None:
        """End now: no code of the process runs any more."""
        self.process.alive = False
        self.process.parked.clear()
        self._loop.dead.add(self.name)
        self.breaks.append((self._loop.time(), None))
        if self.ready:
            self.consumer.forget()
        self._on_end(self, error)

    def check(self) -> None:
        """Check that this process is alive."""
        if not self.process.alive:
            raise Died

    def reached(self, point: str, step: Step | None) -> None:
        """Pass a point of the journal's; it may be the last one."""
        self.check()
        if point == "applied" and step is not None:
            for key in itertools.chain(step.changes.puts, step.changes.plain):
                entry = step.changes.entry(key)
                assert entry is not None
                if key in self._removed:
                    self._removed.discard(key)
                    self.applied.pop((key, entry.source), None)
                self.applied.setdefault((key, entry.source), self._loop.time())
            self._removed.update(step.changes.removed)
            if self.namespaces:
                look(self)
        if self.points:
            self.points -= 1
            if not self.points:
                self._broker.note(f"{self.name} dies at {point}")
                self.end()
                raise Died

    # -----------------------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to run, without partitions."""
        settings, clock = self._settings, self.clock
        self.cluster = Cluster("simulated")
        self.cluster._client = Client(self, self._broker, self._rnd)  # type: ignore[assignment]
        self._broker.network.losing[self.name] = self.cluster.lose
        while True:
            try:
                await self.cluster.refresh(sorted(settings.topics.internal_topics & set(self._broker.logs)))
                sender, deliveries = Sender(self.cluster), Sender(self.cluster, recalls=True)
                await sender.start()
                await deliveries.start()
                break
            except kafka.KafkaError:  # its supervisor would start it again
                await asyncio.sleep(0.1)
        self.senders = (sender, deliveries)
        self.table = Table(self.slot, clock, namespace_rule(settings.topics.namespaces, settings.topics.inputs))
        targets: dict[str | None, DestinationCluster] = {None: DestinationCluster(self.cluster, deliveries)}
        dispatcher, journal = dispatcher_and_journal(settings, clock, targets, self.cluster, sender, self.table)
        partitions: dict[int, Partition] = {}
        self.consumer = Consumer(self, self._broker, self._rnd)
        logs = InputLogs(settings.topics, settings.engine, self.cluster, clock, journal)
        guard = ChangelogGuard(
            settings.topics, settings.engine, self.table, journal, self._changelog_id, self._committed
        )
        self.controls = Controls(settings.topics, settings.engine, self.cluster)
        posts = Posts(settings.topics, settings.destinations, clock, "simulated", self.web.client(self))
        throttle = Throttle(settings.kafka, settings.topics, settings.destinations, clock, self.controls.known)
        liveness = InputLiveness(self.consumer, margins_of(settings.topics), settings.topics.namespaces)
        self.due = DueLoop(settings, clock, dispatcher, partitions, liveness, posts, throttle, self.batch)
        self.controls.changed = self.due.obey
        journal.reached = self.reached  # type: ignore[method-assign]
        limits, destinations = TopicLimits(1 << 20, 1 << 20, 1 << 20), DestinationTopics(self.cluster)
        progress = ProgressReporter(settings, clock, sender, self.due)
        reports = LatestReports(settings.topics, self.cluster)
        watermark = Watermark(settings.topics, self.cluster, clock, reports, partitions, self.consumer, ())
        versions, following = RowVersion(settings.engine, reports), Following(self._broker, settings)
        quotas = following.quotas(self.table, self._loop.time)
        services = Services(settings, clock, journal, destinations, limits, versions, quotas=quotas)
        self.ownership = Ownership(
            partitions,
            self.table,
            self.cluster,
            Stages(
                StoreRecovery(
                    settings.topics, settings.engine, clock, self.table, journal, guard, limits.tombstones_ms
                ),
                logs,
                watermark,
                self.consumer,
                PartitionCatchUp(
                    settings.topics, settings.engine, self.cluster, logs, self.consumer, partitions, progress.report
                ),
                self.controls,
                ArrivalSearch(settings.topics, settings.engine, clock, targets),
            ),
            lambda number, lost_inputs: self._noting(Partition(number, services, self.due, lost_inputs)),
            self.due.notify,
            self.fatal,
        )
        self._turn = asyncio.Lock()
        self._work = [
            self.spawn(work) for work in (self.due.run(), progress.run(), watermark.run(), self.controls.run())
        ]
        if settings.topics.quotas:
            self._work.append(self.spawn(following.run()))
        self.ready = True

    async def _changelog_id(self) -> str:
        return self._broker.ids[self._settings.topics.changelog]

    async def _committed(self, number: int, topics: Collection[str]) -> dict[str, int]:
        committed = self._broker.committed
        return {topic: committed[topic, number] for topic in topics if (topic, number) in committed}

    def _noting(self, partition: Partition) -> Partition:
        """Note when rows of a partition are claimed, and when claims are abandoned."""
        in_flight = partition.in_flight
        claim, claim_all, clear = in_flight.claim, in_flight.claim_all, in_flight.clear

        def noted(key: bytes, entry: Entry, route: Route | None = None) -> None:
            self.claimed.setdefault((key, entry.source), []).append(self._loop.time())
            claim(key, entry, route)

        def all_noted(rows: PlainRows, route: Route) -> None:
            for key, row in rows:
                self.claimed.setdefault((key, entry_of(row).source), []).append(self._loop.time())
            claim_all(rows, route)

        def cleared() -> None:
            if partition.claims:  # they were abandoned, with the step that was to end them
                self.breaks.append((self._loop.time(), partition.number))
            clear()

        partition.in_flight.clear = cleared  # type: ignore[method-assign]
        partition.in_flight.claim = noted  # type: ignore[method-assign]
        partition.in_flight.claim_all = all_noted  # type: ignore[method-assign]
        return partition

    async def revoke(self) -> None:
        """Give the partitions back, as app/worker.py does."""
        async with self._turn:
            await self._give_back()

    async def _give_back(self) -> None:
        await self.ownership.revoke()
        if self.outlived:
            self.outlived = False
            self.breaks.append((self._loop.time(), None))

    async def assign(self, numbers: list[int], generation: int) -> None:
        """Take partitions, as app/engine/faust_host/handover.py does."""
        async with self._turn:
            self.consumer.forget()
            await self._give_back()
            self._broker.note(f"{self.name} is given {numbers} in generation {generation}")
            self.given += [(self._loop.time(), number) for number in numbers]
            await self.ownership.assign(numbers, generation)

    async def stop(self) -> None:
        """Stop in order, as app/engine/engine.py does."""
        async with self._turn:
            self.consumer.forget()
            await self._give_back()
            await self.ownership.close()
            for task in self._work:
                task.cancel()
            await asyncio.gather(*self._work, return_exceptions=True)
            await self.due.stop()
            for sender in self.senders:
                await sender.stop()
        self.process.alive = False
        self._loop.dead.add(self.name)
