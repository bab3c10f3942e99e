"""What waits in the inputs of the whole installation when partitions are assigned.

A command may stand in any partition of an input and reach its message through the forwards (records.md#commands). So a
partition has read all that waited for it only when every partition has ingested what its inputs held, and then itself
what its forwards hold. What other workers have ingested is in their progress records.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import msgspec

from app.base.process.skipped_records import bounded, passed_over
from app.engine.partition.partition import Partition, State
from app.kafka import Cluster
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.metadata.reader import PartitionReader, Stored
from app.settings.topics import TopicSettings

_LOOK_S = 0.02
#: A partition of which nobody has told anything for so long is waited for no more: workers tell each second of all that
#: they have. A look that takes longer than a second counts as one, for the brokers may have been away.
SILENT_S, _COUNTED_S = 10.0, 1.0
#: One that was not waited for before is waited for so long: it may have been heard of again.
_AGAIN_S = 1.5
#: Progress records of each partition to begin with: the last ones, and some.
_REPORTS = 8
#: Ends that are so little ahead may be ends of transactions, which are no records.
_MARKERS = 100


class _Report(msgspec.Struct):
    """What matters here of a progress record."""

    partition: int
    positions: dict[str, int]
    state: str = ""


_decode = msgspec.json.Decoder(_Report).decode


class UnreadBacklog:
    """What waited at one assignment; all partitions that were assigned with it share it."""

    def __init__(
        self,
        topics: TopicSettings,
        cluster: Cluster,
        partitions: Mapping[int, Partition],
        ingested: Callable[[Partition, str, int], bool],
        report: Callable[[], Awaitable[None]],
        silent: Collection[int] = (),
    ) -> None:
        """Look after `partitions`, which are ours; `ingested` tells whether one has read a topic up to an offset.

        `report` tells other workers how far ours are; of those that are `silent` nothing was told lately.
        """
        self._topics, self._cluster, self._partitions = topics, cluster, partitions
        self._ingested, self._report, self._silent = ingested, report, silent
        self._told: dict[TopicPartition, int] = {}
        #: For how long nothing has been told of each partition of others; for one that is stopped that is for ever.
        self._silent_s: dict[int, float] = {}
        #: Partitions that were not waited for to the end.
        self.without: set[int] = set()
        self._reports = PartitionReader(cluster, topics.progress, 0)
        self._task: asyncio.Task[None] | None = None
        #: When it was looked what waits.
        self.began_s = math.inf

    async def cleared(self) -> None:
        """Wait until every partition of the installation has ingested what its inputs hold now."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self.began_s, self._task = loop.time(), loop.create_task(self._clear())
        await asyncio.shield(self._task)

    @property
    def over(self) -> bool:
        """Whether it has been waited for, and is cleared."""
        return self._task is not None and self._task.done()

    def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()

    async def _clear(self) -> None:
        tps = [(topic, number) for topic in self._topics.inputs for number in range(self._topics.partitions)]
        found = await asyncio.gather(*(PartitionReader(self._cluster, *tp).end() for tp in tps))
        ends = {tp: end for tp, end in zip(tps, found, strict=True) if end}
        await self._read_reports()
        await asyncio.gather(*(self._forget_former(tp, end) for tp, end in ends.items() if tp[1] in self._partitions))
        while not all(self._done_here(tp, end) for tp, end in ends.items()):  # noqa: ASYNC110 - plain numbers
            await asyncio.sleep(_LOOK_S)
        await self._report()
        await self._wait_for_others({tp: end for tp, end in ends.items() if tp[1] not in self._partitions})

    async def _wait_for_others(self, behind: dict[TopicPartition, int]) -> None:
        """Wait until partitions of other workers have read their inputs, as long as somebody tells of them."""
        now = asyncio.get_running_loop().time
        self._silent_s = {n: SILENT_S - _AGAIN_S if n in self._silent else 0.0 for _, n in behind}
        while behind := {tp: end for tp, end in behind.items() if not await self._done(tp, end)}:
            began = now()
            records = await self._reports.chunk(1_000)
            passed = min(now() - began, _COUNTED_S)
            self._silent_s = {number: silent + passed for number, silent in self._silent_s.items()}
            self._note_reports(records)
            self.without |= {number for _, number in behind if self._silent_s[number] >= SILENT_S}
            behind = {tp: end for tp, end in behind.items() if tp[1] not in self.without}

    def _done_here(self, tp: TopicPartition, end: int) -> bool:
        """Return whether a partition of ours has read a topic up to `end`, or never will; others are not looked at."""
        topic, number = tp
        partition = self._partitions.get(number)
        if partition is None or partition.state is State.STOPPED or self._told.get(tp, 0) >= end:
            return True
        return partition.working and self._ingested(partition, topic, end)

    async def _done(self, tp: TopicPartition, end: int) -> bool:
        """Return whether a partition of another worker has read a topic up to `end`."""
        await self._forget_former(tp, end)
        position = self._told.get(tp, 0)
        if position >= end:
            return True
        if end - position > _MARKERS:
            return False
        reader = PartitionReader(self._cluster, *tp, max(position, await PartitionReader(self._cluster, *tp).begin()))
        while await reader.position() < end:
            if await reader.chunk(1):
                return False
        return True

    async def _forget_former(self, tp: TopicPartition, end: int) -> None:
        """Forget a position beyond what a topic has: it is of a log that was there before, by the same name."""
        position = self._told.get(tp, 0)
        if position > end and position > await PartitionReader(self._cluster, *tp).end():
            del self._told[tp]

    async def _read_reports(self) -> None:
        """Read the last progress records that there are."""
        begin, end = await self._reports.begin(), await self._reports.end()
        begin = max(begin, end - _REPORTS * self._topics.partitions)
        self._reports = PartitionReader(self._cluster, self._topics.progress, 0, begin)
        while await self._reports.position() < end:
            self._note_reports(await self._reports.chunk(1_000))

    def _note_reports(self, records: Sequence[Stored]) -> None:
        for record in records:
            if record.value is None:
                continue
            try:
                report = _report_of(record.key, record.value)
            except (ValueError, msgspec.MsgspecError, RecursionError) as error:
                passed_over(self._topics.progress, 0, record.offset, error)
                continue
            self._told.update({(topic, report.partition): offset for topic, offset in report.positions.items()})
            self._silent_s[report.partition] = math.inf if report.state == State.STOPPED else 0.0


def _report_of(key: bytes | None, value: bytes) -> _Report:
    """Decode a progress record; raises ValueError or what msgspec raises if it is none."""
    report = _decode(bounded(value))
    if key != b"%d" % report.partition:
        msg = f"the key is {key!r}, the partition {report.partition}"
        raise ValueError(msg)
    return report
