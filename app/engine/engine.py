"""The engine of a worker: everything that runs in it, put together."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from app.base.clock import Clock
from app.base.patience import patiently
from app.base.process.datadir import belongs, claim
from app.base.process.fatal import end_process
from app.base.process.library_logs import silent
from app.base.process.tasks import telling
from app.base.process.watchdog import Watchdog
from app.base.version import VERSION
from app.engine.deliver.posts import Posts
from app.engine.deliver.target import Target, connect
from app.engine.due.due_loop import DueLoop
from app.engine.due.input_lag import margins_of
from app.engine.due.input_liveness import InputLiveness
from app.engine.due.series_pace import SeriesPace
from app.engine.faust_host.chunk import Chunk
from app.engine.faust_host.group_intake import GroupIntake
from app.engine.guarantee import dispatcher_and_journal
from app.engine.housekeeping import Housekeeping
from app.engine.ingest.admission import Admission
from app.engine.ingest.census import Census
from app.engine.ingest.destinations import Destinations, Elsewhere, Neighbours
from app.engine.ingest.hopes import Hopes
from app.engine.ingest.quotas import Quotas
from app.engine.ownership.arrivals import Arrivals
from app.engine.ownership.assignment import Ownership, Stages
from app.engine.ownership.catching_up import CatchingUp
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.ownership.input_logs import InputLogs
from app.engine.ownership.internal_logs import InternalLogs
from app.engine.ownership.recovery import StoreRecovery
from app.engine.partition.fetched import has_ingested
from app.engine.partition.partition import Partition
from app.engine.partition.services import Services
from app.engine.partition.state import State
from app.engine.reports.agreement import Agreement
from app.engine.reports.latest import Reports
from app.engine.reports.measures import Measures
from app.engine.reports.minutes import Minutes
from app.engine.reports.progress import ProgressReporter
from app.engine.reports.queues import Queues, Said
from app.engine.reports.reader import ProgressReader, Report
from app.engine.reports.row_version import RowVersion
from app.engine.reports.standstill import TOO_LONG_S, Standstill
from app.engine.reports.state import Recovery, Wanted
from app.engine.reports.watermark import Watermark
from app.engine.steps.route import HTTP, name_of
from app.engine.throttle.controls import Controls
from app.engine.throttle.throttle import Throttle
from app.engine.topics import layout
from app.engine.topics.topics import TopicLimits, check_again, ensure
from app.engine.traces.on import traces_of
from app.kafka import Cluster, Sender
from app.settings.quotas import of_all, senders
from app.settings.settings import Settings
from punctual.contract.destination import named
from tables import DelayTable, Position


class Engine:
    """All that a worker does beside what Faust does for it; it is also what the console asks."""

    def __init__(self, settings: Settings, table: DelayTable, app: Any) -> None:
        """Put the parts together; nothing runs yet."""
        self.settings, self.table, self._app = settings, table, app
        self.clock = Clock()
        self.limits = TopicLimits()
        self.reader = ProgressReader(
            settings.bootstrap, settings.progress, partitions=settings.partitions, **settings.kafka_options()
        )
        self.targets: dict[str | None, Target] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._started = False
        #: What ends before partitions do.
        self.before_stop: Callable[[], Awaitable[None]] = _nothing
        self.measures: Measures | None = None
        self.quotas = of_all(settings.quotas, settings.namespaces)

    def claim(self) -> None:
        """Take the data directory, before anything is written to it.

        Raises PunctualError if that is not possible.
        """
        self._lock = claim(self.settings.data_path)

    async def start(self) -> None:
        """Connect, create and check topics, begin to fire what will be owned.

        Raises PunctualError with a sentence if the worker cannot start.
        """
        settings = self.settings
        self._traces = traces_of(settings)
        with silent("aiokafka"):
            self.limits = await ensure(settings, layout.assure)
        self.cluster = Cluster(settings.bootstrap, **settings.kafka_options())
        targets = self.targets
        targets[None] = Target(self.cluster, Sender(self.cluster, recalls=True))
        await self.cluster.start(settings.progress)
        own_id = await self.cluster.id()
        belongs(settings.data_path, settings.app_id, own_id, settings.changelog)
        self.sender = Sender(self.cluster)
        for name, bootstrap in settings.clusters.items():
            targets[name] = await connect(name, bootstrap, settings)
        for sender in (self.sender, targets[None].sender):
            await patiently(sender.start, "producer ids")
        self.dispatcher, self.journal = dispatcher_and_journal(
            settings, self.clock, targets, self.cluster, self.sender, self.table, self._traces
        )
        self._intake = intake = GroupIntake(self._app)
        partitions = dict[int, Partition]()
        logs = InputLogs(settings, self.cluster, self.clock, self.journal, self.limits.producers_time)
        internal = InternalLogs(settings, self.cluster, cold=self.limits.cold)
        guard = ChangelogGuard(settings, self.table, self.journal, internal.changelog_id, internal.committed)
        liveness = InputLiveness(intake, margins_of(settings), settings.namespaces)
        self.controls = Controls(settings, self.cluster)
        await self.controls.assure_whole()
        self._queues = Queues(settings, self.cluster, self.clock.wall_ms)
        throttle = Throttle(settings, self.clock, self.controls.known)
        posts = Posts(settings, self.clock, own_id, traces=self._traces)
        self.due = DueLoop(settings, self.clock, self.dispatcher, partitions, liveness, posts, throttle)
        self.controls.changed = self.due.obey
        destinations = Destinations(self.cluster, patience_s=0)  # that is what hopes are for
        stores, heard, now = self.table.stores, self.reader.reports, asyncio.get_running_loop().time
        shared = len(senders(settings.namespaces, settings.inputs)) > 1
        admission = Admission(
            settings,
            destinations,
            Neighbours.at_home(self.cluster),
            {name: Elsewhere(target.cluster, own_id) for name, target in targets.items() if name is not None},
            Census(settings.max_destinations, stores, heard, now, shared=shared),
        )
        admission.hopes = Hopes(self.cluster)
        quotas = Quotas(settings, stores, self.table.progress, heard, now) if settings.quotas else None
        if quotas is not None and quotas.rates is not None:
            self.due.pace = SeriesPace(quotas.rates)
        progress = ProgressReporter(settings, self.clock, self.sender, self.due, self.reader.last, quotas)
        reports = Reports(settings, self.cluster)
        watermark = Watermark(
            settings, self.cluster, self.clock, reports, partitions, intake, self.limits.producers_time
        )
        versions = RowVersion(settings, reports)
        services = Services(
            settings,
            self.clock,
            self.journal,
            destinations,
            self.limits,
            versions,
            admission,
            quotas,
            traces=self._traces,
        )
        self.ownership = Ownership(
            partitions,
            self.table,
            self.cluster,
            Stages(
                StoreRecovery(settings, self.clock, self.table, self.journal, guard, self.limits.tombstones_ms),
                logs,
                watermark,
                intake,
                CatchingUp(settings, self.cluster, logs, intake, partitions, progress.report),
                self.controls,
                Arrivals(settings, self.clock, targets),
            ),
            lambda number, lost_inputs: Partition(number, services, self.due, lost_inputs),
            self.due.notify,
            end_process,
        )
        self.standstill = Standstill(logs.topics, intake, partitions, now)
        self._progress, progress.standstill = progress, self.standstill
        agreement = Agreement(settings, self.clock.wall_ms())
        minutes, late = Minutes(self.clock, partitions), self.due.lateness.since_start
        self.measures = Measures(settings, self.clock, self.journal.tally, late, partitions, intake, agreement, minutes)
        for work in (
            minutes.run(),
            self.due.run(),
            progress.run(),
            watermark.run(),
            self.controls.run(),
            self._queues.run(),
            internal.run(self.table.stores, lambda: check_again(settings)),
            Housekeeping(self, self._app, self._lock, agreement).run(),
            Watchdog({"firing": lambda: self.due.beat_s, "fetching": self._fetch_beat}).run(),
        ):
            self._spawn(work)
        self._started = True

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(telling(end_process))
        self._tasks.append(task)

    def _fetch_beat(self) -> float:
        consumer = self._app._consumer  # noqa: SLF001 - None until it starts
        return 0.0 if consumer is None or not consumer.flow_active else consumer.beat_s

    async def stop(self) -> None:
        """Finish what is in flight, close the databases, stop."""
        if not self._started:
            return
        self._started = False
        await self.before_stop()
        await self.ownership.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.due.stop()
        for target in self.targets.values():
            await target.sender.stop()
        await self.sender.stop()
        if self._traces is not None:
            await self._traces.close()

    async def disconnect(self) -> None:
        """Close the connections, last of all."""
        for target in self.targets.values():
            await target.cluster.stop()

    # records ---------------------------------------------------------------------------------------------------------
    def hand_over(self, chunk: Chunk) -> None:
        """Hand fetched records of one topic partition to the partition that they belong to.

        Those of an earlier generation are dropped: what came before them may have been, and will be read again.
        """
        records = chunk.unwrap()
        consumer, partition = self._app.consumer, self.ownership.partitions.get(chunk.partition)
        if partition is None or chunk.generation != self.ownership.generation:
            return
        offered = partition.offer(records)
        offered.add_done_callback(lambda _: consumer.done(chunk))

    def position(self, topic: str, number: int) -> int | None:
        """Return how far a topic's partition is in the table, or None if this worker doesn't know."""
        position = self._position(topic, number)
        return position.offset if position is not None else None

    def has_ingested(self, topic: str, number: int, end: int) -> bool:
        """Return whether a partition of this worker's has read a topic up to `end`; beyond records may be markers."""
        partition = self.ownership.partitions.get(number)
        return partition is not None and partition.working and has_ingested(partition, self._intake, topic, end)

    def base(self, topic: str, number: int) -> int:
        """Return what is added to the offsets of a topic's partition where they name records, 0 if it doesn't know."""
        position = self._position(topic, number)
        return position.base if position is not None else 0

    def epoch(self, number: int) -> int:
        """Return the epoch with which this worker owns a partition, 0 if it does not."""
        store = self.table.stores.get(number)
        return store.writer if store is not None else 0

    def _position(self, topic: str, number: int) -> Position | None:
        store = self.table.stores.get(number)
        return store.positions.get(topic) if store is not None else None

    @property
    def hurried(self) -> bool:
        """Whether any partition is in a hurry."""
        now = asyncio.get_running_loop().time()
        return any(partition.is_hurried(now) for partition in self.ownership.partitions.values())

    @property
    def catching_up(self) -> bool:
        """Whether any partition waits until what waited for it is read."""
        return any(partition.state is State.CATCHING_UP for partition in self.ownership.partitions.values())

    # what the console asks -------------------------------------------------------------------------------------------
    @property
    def app_id(self) -> str:
        """The installation's name."""
        return self.settings.app_id

    @property
    def partitions(self) -> int:
        """How many partitions the installation has."""
        return self.settings.partitions

    @property
    def owned(self) -> Collection[int]:
        """The numbers of the partitions that this worker owns."""
        return self.ownership.partitions.keys()

    @property
    def worker_url(self) -> str:
        """The address that this worker writes into its progress reports."""
        return self.settings.url

    @property
    def version(self) -> str:
        """The version of this worker."""
        return VERSION

    def destinations(self, partition: int) -> dict[str, tuple[int, int | None]] | None:
        """What waits for each destination in a partition that is served here, and since when it is held."""
        served = self.ownership.partitions.get(partition) if self._started else None
        if served is None or not served.working:
            return None
        held = served.in_flight.held_ms()
        counts = served.store.counts.destinations
        return {to: (counts.get(to, 0), held.get(to)) for to in {**counts, **held} if to}

    def now_ms(self) -> int:
        """The worker's wall clock in epoch milliseconds."""
        return self.clock.wall_ms()

    def trouble(self, destination: str) -> str:
        """Why a destination does not take what this worker has for it; empty if it does, or that is not known here."""
        held = {route for partition in self.due.partitions.values() for route in partition.in_flight.held_routes()}
        named = (route for route in held if name_of(route) == destination)
        said = (self.due.http.trouble(one) if one[2] == HTTP else self.dispatcher.trouble(one) for one in named)
        return next(filter(None, said), "")

    def wanted(self) -> Wanted:
        """What operators want of destinations, as this worker has read it."""
        if not self._started:
            return Wanted()
        throttle = self.due.throttle
        pauses = {named(*to): control for to in throttle.pauses if (control := throttle.paused(to)) is not None}
        return Wanted(pauses, {named(*to): rate for to, rate in throttle.rates.items()})

    def queues(self) -> list[Said]:
        """What consumers of acknowledged queues have said last."""
        return self._queues.known if self._started else []

    def ready_reason(self) -> str | None:
        """None when recovered and serving, else a sentence that says what is missing."""
        if not self._started:
            return "starting: waiting for Kafka"
        if self.ownership.generation < 0:
            return "waiting for the group to assign partitions"
        for number, partition in sorted(self.ownership.partitions.items()):
            if partition.state is State.STOPPED:
                return f"partition {number} is stopped: {partition.reason}"
            if partition.state is State.RESTORING:
                progress = self.table.progress.get(number)
                return str(progress) if progress is not None else f"opening partition {number}"
        return None

    def health_reason(self) -> str | None:
        """None while this worker serves, takes requests and can write, else a sentence that says what is missing."""
        return self.ready_reason() or self.standstill.reason()

    def unconfirmed_since_ms(self) -> int | None:
        """Since when no broker has confirmed what this worker writes (epoch ms); None while they do."""
        unconfirmed_s = self.standstill.unconfirmed_s() if self._started else 0
        return self.clock.wall_ms() - round(unconfirmed_s * 1_000) if unconfirmed_s > TOO_LONG_S else None

    def reports(self) -> Mapping[int, Report]:
        """The last reports of all partitions; this worker's are as they would be if brokers took them."""
        known = self.reader.reports
        if self.unconfirmed_since_ms() is None:
            return known
        return {**known, **self._progress.own(self.clock.now_ms())}

    def recovery(self) -> Sequence[Recovery]:
        """The partitions that this worker is restoring."""
        return [
            Recovery(
                partition=progress.partition,
                done=progress.position - progress.begin,
                total=progress.end - progress.begin,
                rows_per_s=progress.rows_per_s,
                seconds_left=progress.seconds_left,
            )
            for progress in self.table.progress.values()
        ]


async def _nothing() -> None:
    """Nothing has to end."""
