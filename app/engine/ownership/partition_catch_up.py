"""A partition reads the backlog of its inputs before it delivers, because commands in it apply to due messages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from prometheus_client import Counter

from app.engine.due.input_liveness import BLIND_S
from app.engine.ownership.input_logs import InputLogs
from app.engine.ownership.unread_backlog import SILENT_S, UnreadBacklog
from app.engine.partition.partition import FetchedPositions, Partition, has_ingested
from app.kafka import Cluster
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings

log = logging.getLogger(__name__)

_CUT_SHORT = Counter(
    "delay_catch_up_cut_short", "How often a partition started to deliver before it had read all unread records."
)
_LOOK_S = 0.02
#: Partitions that lose sight of their inputs within this time share one look at the backlog.
_TOGETHER_S = 1.0


class PartitionCatchUp:
    """Lets the partitions of one worker catch up; partitions that begin together share one look at the backlog."""

    def __init__(
        self,
        topics: TopicSettings,
        engine: EngineSettings,
        cluster: Cluster,
        logs: InputLogs,
        fetched: FetchedPositions,
        partitions: Mapping[int, Partition],
        report: Callable[[], Awaitable[None]],
    ) -> None:
        """Serve `partitions`. `report` writes progress records, for which other workers may wait."""
        self._topics, self._engine, self._cluster, self._logs, self._fetched = topics, engine, cluster, logs, fetched
        self._partitions, self._report = partitions, report
        #: Looks that partitions may still wait for; the last one began at `_looked_s`.
        self._looks: list[UnreadBacklog] = []
        self._looked_s = 0.0
        #: Partitions of other workers that were not waited for since the assignment.
        self._silent = set[int]()

    def close(self) -> None:
        """Stop waiting."""
        for look in self._looks:
            look.close()
        self._looks.clear()

    def begin(self) -> UnreadBacklog:
        """Start a new assignment: forget silent partitions, and return the look that all its partitions share."""
        self._silent.clear()
        return self._look()

    async def again(self, partition: Partition) -> float:
        """Wait until the present backlog is ingested; return the event loop's time of this backlog."""
        began, look = asyncio.get_running_loop().time(), self._shared()
        return await self.wait(partition, await self._logs.ends(partition.number), look, began)

    async def wait(self, partition: Partition, ends: dict[str, int], look: UnreadBacklog, began: float) -> float:
        """Wait until the backlog at assignment is ingested, because commands in it come before deliveries.

        Return the event loop's time for which all records known by then are ingested, or the present time if
        DELAY_CATCH_UP is over.

        Commands may come from other partitions, so those are waited for too, and then their forwards. If the look or
        the `ends` (read when it `began`) are too old by then, newer commands have waited for as long, so the wait is
        repeated.
        """
        partition.catch_up()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._engine.catch_up_ms / 1000):
                await self._read_all(partition, ends, look)
                while loop.time() - min(began, look.began_s) > BLIND_S:
                    began, look = loop.time(), self._shared()
                    await self._read_all(partition, await self._logs.ends(partition.number), look)
                return min(began, look.began_s)
        except TimeoutError:
            _CUT_SHORT.inc()
            log.error(  # noqa: TRY400 - the trace says nothing
                "partition %d: deliveries start before all unread requests are read, because DELAY_CATCH_UP is "
                "over. A cancellation among these requests may be too late",
                partition.number,
                extra={"partition": partition.number},
            )
            return loop.time()

    def _shared(self) -> UnreadBacklog:
        """Return the last look if it has just begun, otherwise a new one."""
        together = asyncio.get_running_loop().time() - self._looked_s <= _TOGETHER_S
        return self._looks[-1] if self._looks and together else self._look()

    def _look(self) -> UnreadBacklog:
        look = UnreadBacklog(
            self._topics,
            self._cluster,
            self._partitions,
            self._has_ingested,
            self._report,
            frozenset(self._silent),
        )
        self._looks = [*(one for one in self._looks if not one.over), look]
        self._looked_s = asyncio.get_running_loop().time()
        return look

    async def _read_all(self, partition: Partition, ends: dict[str, int], look: UnreadBacklog) -> None:
        await self._ingested(partition, ends)
        await look.cleared()
        self._note_silent(look.without)
        written = await self._logs.forwarded_end(partition.number)
        await self._ingested(partition, {self._topics.forwards: written})

    def _note_silent(self, silent: set[int]) -> None:
        """Log and count the partitions that were not waited for."""
        if silent - self._silent:
            log.error(
                "deliveries start before partitions %s have read all their requests, because no worker has reported "
                "these partitions for %g s, or they are stopped. Check them: a cancellation among their requests "
                "may be too late",
                sorted(silent),
                SILENT_S,
            )
            _CUT_SHORT.inc()
        self._silent |= silent

    async def _ingested(self, partition: Partition, ends: dict[str, int]) -> None:
        """Wait until a partition has ingested its inputs up to these offsets."""
        while not all(self._has_ingested(partition, topic, end) for topic, end in ends.items()):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    def _has_ingested(self, partition: Partition, topic: str, end: int) -> bool:
        return has_ingested(partition, self._fetched, topic, end)
