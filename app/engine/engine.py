"""The engine of a worker: connects, assembles the parts, runs them, and stops them in order."""

import asyncio
from typing import TYPE_CHECKING, Any

from app.base.clock import Clock
from app.base.process.datadir import claim
from app.base.process.fatal import end_process, telling
from app.base.process.watchdog import Watchdog
from app.engine.assembly import Parts, assemble
from app.engine.connections import Connections
from app.engine.faust_host.chunk import Chunk
from app.engine.housekeeping import Housekeeping
from app.engine.ownership.assignment import Ownership
from app.engine.partition.partition import State, has_ingested
from app.engine.reports.reader import ProgressReader
from app.engine.throttle.controls import Controls
from app.engine.topics.creation import check_again
from app.engine.view import EngineView
from app.kafka import Cluster, Sender
from app.settings.settings import Settings
from tables import DelayTable, Position

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Engine:
    """Everything that a worker does in addition to Faust. The console and the API read its state from `view`.

    `cluster`, `sender`, `controls` and `ownership` are there once it has started.
    """

    cluster: Cluster
    sender: Sender
    controls: Controls
    ownership: Ownership

    def __init__(self, settings: Settings, table: DelayTable, app: Any) -> None:
        """Serve the `table` of the Faust `app` with these `settings`; `start` begins the work."""
        self.settings, self.table, self._app = settings, table, app
        self.clock = Clock()
        self.reader = ProgressReader(
            settings.kafka.bootstrap,
            settings.topics.progress,
            partitions=settings.topics.partitions,
            **settings.kafka.options(),
        )
        self.view = EngineView(settings, self.clock, table, self.reader)
        self._connections = Connections(settings)
        self.targets = self._connections.targets
        self._tasks: list[asyncio.Task[None]] = []
        #: Stops the jobs, which must end before the partitions.
        self.before_stop: Callable[[], Awaitable[None]] = _nothing

    def claim(self) -> None:
        """Lock the data directory, before anything is written to it.

        Raises PunctualError if that is not possible.
        """
        self._lock = claim(self.settings.data_path)

    async def start(self) -> None:
        """Connect, assemble the parts, and run them; the worker then delivers from each partition that it gets.

        Raises PunctualError with a sentence if the worker cannot start.
        """
        connections = self._connections
        await connections.open()
        self.cluster, self.sender = connections.cluster, connections.sender
        parts = assemble(self.settings, self.clock, self.table, self.reader, connections, self._app)
        self.controls, self.ownership = parts.controls, parts.ownership
        await parts.controls.assure_whole()
        self._run(parts)

    def _run(self, parts: Parts) -> None:
        housekeeping = Housekeeping(self.view, self._connections, parts, self._app, self._lock)
        watchdog = Watchdog({"firing": lambda: parts.due.beat_s, "fetching": self._fetch_beat})
        for work in (
            parts.minutes.run(),
            parts.due.run(),
            parts.progress.run(),
            parts.watermark.run(),
            parts.controls.run(),
            parts.queues.run(),
            parts.internal_logs.run(self.table.stores, lambda: check_again(self.settings.kafka, self.settings.topics)),
            housekeeping.run(),
            watchdog.run(),
        ):
            task = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(telling(end_process))
            self._tasks.append(task)
        self.view.parts = parts

    def _fetch_beat(self) -> float:
        consumer = self._app._consumer  # noqa: SLF001 - None until it starts
        return 0.0 if consumer is None or not consumer.flow_active else consumer.beat_s

    async def stop(self) -> None:
        """Finish the deliveries in flight, close the databases, stop the producers."""
        parts = self.view.parts
        if parts is None:
            return
        self.view.parts = None
        await self.before_stop()
        await parts.ownership.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await parts.due.stop()
        await self._connections.stop_sending()

    async def disconnect(self) -> None:
        """Close the connections, after everything else has stopped."""
        await self._connections.close()

    # records ---------------------------------------------------------------------------------------------------------
    def hand_over(self, chunk: Chunk) -> None:
        """Hand fetched records of one topic partition to the partition that they belong to.

        Records of an earlier generation are dropped: the records before them may have been dropped too, and are read
        again.
        """
        records = chunk.unwrap()
        consumer, partition = self._app.consumer, self.ownership.partitions.get(chunk.partition)
        if partition is None or chunk.generation != self.ownership.generation:
            return
        offered = partition.offer(records)
        offered.add_done_callback(lambda _: consumer.done(chunk))

    def position(self, topic: str, number: int) -> int | None:
        """Return the offset up to which a topic's partition is in the table, None if this worker does not own it."""
        position = self._position(topic, number)
        return position.offset if position is not None else None

    def has_ingested(self, topic: str, number: int, end: int) -> bool:
        """Return whether a partition of this worker has read all records of a topic before offset `end`."""
        partition, parts = self.ownership.partitions.get(number), self.view.parts
        if partition is None or parts is None or not partition.working:
            return False
        return has_ingested(partition, parts.intake, topic, end)

    def base(self, topic: str, number: int) -> int:
        """Return the number that is added to offsets of a topic's partition to name its records; 0 if it is unknown."""
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
        """Whether any partition commits its steps on the short beat at the moment."""
        now = asyncio.get_running_loop().time()
        return any(partition.writer.is_hurried(now) for partition in self.ownership.partitions.values())

    @property
    def catching_up(self) -> bool:
        """Whether any partition waits until its backlog is read."""
        return any(partition.state is State.CATCHING_UP for partition in self.ownership.partitions.values())


async def _nothing() -> None:
    """Return at once: no jobs run yet."""
