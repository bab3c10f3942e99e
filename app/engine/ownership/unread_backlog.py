"""The backlog of all inputs of the installation when partitions are assigned.

A command can be in any partition of an input and reach its message through the forwards (records.md#commands). So a
partition has read its whole backlog only when every partition has ingested its inputs as of then, and it has then
ingested its own forwards. Progress records show what other workers have ingested.
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
#: Seconds without a report after which a partition is not waited for; workers report all their partitions each second.
#: A longer read counts as one second, because brokers may have been down.
SILENT_S, _COUNTED_S = 10.0, 1.0
#: Seconds that a formerly silent partition is waited for again, because it may report again.
_AGAIN_S = 1.5
#: Progress records per partition that are read at first: the last ones, and some before.
_REPORTS = 8
#: If an end is ahead by at most this, the difference may consist of transaction markers, which are no records.
_MARKERS = 100


class _Report(msgspec.Struct):
    """The fields of a progress record that are used here."""

    partition: int
    positions: dict[str, int]
    state: str = ""


_decode = msgspec.json.Decoder(_Report).decode


class UnreadBacklog:
    """The backlog at one assignment, shared by all partitions that were assigned with it."""

    def __init__(
        self,
        topics: TopicSettings,
        cluster: Cluster,
        partitions: Mapping[int, Partition],
        ingested: Callable[[Partition, str, int], bool],
        report: Callable[[], Awaitable[None]],
        silent: Collection[int] = (),
    ) -> None:
        """Wait for this worker's `partitions`, and for others; `ingested` tells whether one has read up to an offset.

        `report` writes the progress records of this worker; `silent` partitions have had no report lately.
        """
        self._topics, self._cluster, self._partitions = topics, cluster, partitions
        self._ingested, self._report, self._silent = ingested, report, silent
        self._reported: dict[TopicPartition, int] = {}
        #: Seconds since the last report of each partition of other workers; infinite for a stopped one.
        self._silent_s: dict[int, float] = {}
        #: Partitions that were not waited for to the end.
        self.without: set[int] = set()
        self._reports = PartitionReader(cluster, topics.progress, 0)
        self._task: asyncio.Task[None] | None = None
        #: When the ends of the inputs were read, by the loop's clock.
        self.began_s = math.inf

    async def cleared(self) -> None:
        """Wait until every partition of the installation has ingested its inputs up to their present ends."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self.began_s, self._task = loop.time(), loop.create_task(self._clear())
        await asyncio.shield(self._task)

    @property
    def over(self) -> bool:
        """Whether the wait was started, and has ended."""
        return self._task is not None and self._task.done()

    def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()

    async def _clear(self) -> None:
        tps = [(topic, number) for topic in self._topics.inputs for number in range(self._topics.partitions)]
        answers = await asyncio.gather(*(PartitionReader(self._cluster, *tp).end() for tp in tps))
        ends = {tp: end for tp, end in zip(tps, answers, strict=True) if end}
        await self._read_reports()
        await asyncio.gather(*(self._forget_former(tp, end) for tp, end in ends.items() if tp[1] in self._partitions))
        while not all(self._done_here(tp, end) for tp, end in ends.items()):  # noqa: ASYNC110 - plain numbers
            await asyncio.sleep(_LOOK_S)
        await self._report()
        await self._wait_for_others({tp: end for tp, end in ends.items() if tp[1] not in self._partitions})

    async def _wait_for_others(self, behind: dict[TopicPartition, int]) -> None:
        """Wait until partitions of other workers have read their inputs, while they are reported."""
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
        """Return whether our partition has read a topic up to `end` or never will; True for other partitions."""
        topic, number = tp
        partition = self._partitions.get(number)
        if partition is None or partition.state is State.STOPPED or self._reported.get(tp, 0) >= end:
            return True
        return partition.working and self._ingested(partition, topic, end)

    async def _done(self, tp: TopicPartition, end: int) -> bool:
        """Return whether a partition of another worker has read a topic up to `end`."""
        await self._forget_former(tp, end)
        position = self._reported.get(tp, 0)
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
        """Forget a position beyond a topic's end: it belongs to a former topic of the same name."""
        position = self._reported.get(tp, 0)
        if position > end and position > await PartitionReader(self._cluster, *tp).end():
            del self._reported[tp]

    async def _read_reports(self) -> None:
        """Read the last existing progress records."""
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
            self._reported.update({(topic, report.partition): offset for topic, offset in report.positions.items()})
            self._silent_s[report.partition] = math.inf if report.state == State.STOPPED else 0.0


def _report_of(key: bytes | None, value: bytes) -> _Report:
    """Decode a progress record; raises ValueError or an error of msgspec if it is invalid."""
    report = _decode(bounded(value))
    if key != b"%d" % report.partition:
        msg = f"the key is {key!r}, the partition {report.partition}"
        raise ValueError(msg)
    return report
