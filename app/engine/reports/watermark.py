"""Low watermarks: no record with an older stamp can arrive any more, so older endings need not be remembered.

In its progress report, a partition claims to have read an input up to a stamp. Later records of the input get at least
this stamp, so the claim is always true. When every partition has claimed a stamp, and a partition has read everything
that they had forwarded to it by then, no older record can arrive there (docs/decisions/0010).
"""

import asyncio
from collections.abc import Collection, Mapping

from app.base.clock import Clock
from app.engine.ingest.policy import AHEAD_MS
from app.engine.partition.partition import FetchedPositions, Partition, State, has_ingested
from app.engine.reports.latest_reports import LatestReports
from app.kafka import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.settings.topics import TopicSettings

_EVERY_S = 0.5
#: An idle input is claimed up to this long ago, because by now the records of that time are readable on most clusters.
_BEHIND_MS = 1_000


class Watermark:
    """Makes claims for the partitions of a worker, and moves their watermarks to the lowest claim of all."""

    def __init__(
        self,
        topics: TopicSettings,
        cluster: Cluster,
        clock: Clock,
        reports: LatestReports,
        partitions: Mapping[int, Partition],
        intake: FetchedPositions,
        producers_time: Collection[str],
    ) -> None:
        """Serve `partitions`; `producers_time` are the inputs whose records have their producers' timestamps."""
        self._topics, self._cluster, self._clock, self._reports = topics, cluster, clock, reports
        self._partitions, self._intake, self._producers_time = partitions, intake, producers_time
        #: The offset up to which each partition must have read its forwards before the stamp becomes its watermark.
        self._awaited: dict[int, tuple[int, int]] = {}

    async def claims(self, number: int) -> dict[str, int]:
        """Return, by input, the claim of a partition's last owner, before it is reported again.

        The next owner is bound by it (CommandMemory.claim).
        """
        await self._reports.read()
        latest_ms = self._clock.now_ms() - self._clock.offset_ms + AHEAD_MS
        claimed = {topic: self._reports.read_to(number, topic) for topic in self._topics.inputs}
        # Workers never claim the future, so such a claim was written by somebody without permission.
        return {topic: stamp_ms for topic, stamp_ms in claimed.items() if stamp_ms <= latest_ms}

    async def run(self) -> None:
        """Update claims and watermarks until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Claim idle inputs, and move watermarks forward."""
        now_ms = self._clock.now_ms()  # before offset_ms, because it notices jumps
        live = [one for one in self._partitions.values() if one.state is State.LIVE]
        if self._clock.may_fire():
            await self._claim(live, now_ms - self._clock.offset_ms - _BEHIND_MS)
        await self._reports.read()
        lowest_ms = min(
            self._reports.read_to(number, topic)  # own claims too: the next owner is only bound by written ones
            for number in range(self._topics.partitions)
            for topic in self._topics.inputs
        )
        for partition in live:
            await self._move_on(partition, lowest_ms)

    async def _claim(self, partitions: list[Partition], until_ms: int) -> None:
        """Claim the inputs that have been read to their present ends."""
        topics = [topic for topic in self._topics.inputs if topic not in self._producers_time]
        pairs = [
            (partition, topic)
            for partition in partitions
            for topic in topics
            if self._intake.position(topic, partition.number) is not None  # otherwise records are in flight
        ]
        ends = await asyncio.gather(*(self._end(topic, partition.number) for partition, topic in pairs))
        for (partition, topic), end in zip(pairs, ends, strict=True):
            if partition.state is State.LIVE and has_ingested(partition, self._intake, topic, end):
                partition.memory.idle(topic, until_ms)

    async def _move_on(self, partition: Partition, lowest_ms: int) -> None:
        """Set a partition's watermark to the lowest stamp once it has read the forwards from before that claim."""
        number, forwards = partition.number, self._topics.forwards
        if lowest_ms < 0:
            self._awaited.pop(number, None)
            partition.memory.watermark_ms = -1
            return
        if number in self._awaited:
            stamp_ms, end = self._awaited[number]
            if not has_ingested(partition, self._intake, forwards, end):
                return
            partition.memory.watermark_ms = stamp_ms
        self._awaited[number] = lowest_ms, await self._end(forwards, number)

    async def _end(self, topic: str, number: int) -> int:
        """Return the offset after the last record, committed or not."""
        return await PartitionReader(self._cluster, topic, number).written_end()
