"""The last progress report of each partition, whichever worker wrote it, with the fields that other workers use."""

import asyncio
import logging
from typing import Annotated

import msgspec

from app.base.process.skipped_records import bounded
from app.kafka import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from tables.entry import VERSION
from tables.keys import MAX_DUE_MS

log = logging.getLogger(__name__)

#: Records per partition that are read at first: the last ones, and some before.
_LAST = 8


class LatestReport(msgspec.Struct, frozen=True):
    """The fields of a progress record that are used here; older workers do not write all."""

    partition: int
    read_to: dict[str, Annotated[int, msgspec.Meta(ge=-1, le=MAX_DUE_MS)]] = {}
    reads: Annotated[int, msgspec.Meta(ge=1)] = 1


_decode = msgspec.json.Decoder(LatestReport).decode


class LatestReports:
    """Follows the progress topic."""

    def __init__(self, topics: TopicSettings, cluster: Cluster) -> None:
        """Follow the progress topic of `topics` on `cluster`."""
        self._topics, self._cluster = topics, cluster
        self._reader: PartitionReader | None = None
        self._reading = asyncio.Lock()
        self._last: dict[int, LatestReport] = {}

    async def read(self) -> None:
        """Read to the topic's end; wait while its broker is down."""
        async with self._reading:
            if self._reader is None:
                self._reader = await self._begin()
            await self._read_to(self._reader, await self._reader.end())

    async def _read_to(self, reader: PartitionReader, end: int) -> None:
        async for record in reader.up_to(end):
            self._remember(record.key, record.value)

    async def _begin(self) -> PartitionReader:
        topic = self._topics.progress
        reader = PartitionReader(self._cluster, topic, 0)
        begin, end = await reader.begin(), await reader.end()
        back = _LAST * self._topics.partitions
        while True:
            reader = PartitionReader(self._cluster, topic, 0, max(begin, end - back))
            await self._read_to(reader, end)
            if back >= end - begin or len(self._last) >= self._topics.partitions:
                return reader
            back *= 8  # a partition has not reported for long, and its last report still counts

    def _remember(self, key: bytes | None, value: bytes | None) -> None:
        try:
            report = _decode(bounded(value))
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return  # others may write to the topic: app/engine/ownership/unread_backlog.py logs it
        if key == b"%d" % report.partition and 0 <= report.partition < self._topics.partitions:
            self._last[report.partition] = report

    def read_to(self, number: int, topic: str) -> int:
        """Return the stamp up to which a partition has read an input, -1 if it is not known."""
        report = self._last.get(number)
        return -1 if report is None else report.read_to.get(topic, -1)

    @property
    def lowest_version(self) -> int | None:
        """The newest row version that all workers in the last reports can read, None without reports."""
        numbers = range(self._topics.partitions)
        return min((self._last[number].reads for number in numbers if number in self._last), default=None)


class RowVersion:
    """The version of rows that every worker of the installation can read, or the one in the settings."""

    def __init__(self, engine: EngineSettings, reports: LatestReports) -> None:
        """Use the version in the settings of `engine`, otherwise the lowest one in `reports`."""
        self._wanted, self._reports = engine.row_version, reports

    def __call__(self, there: int = 1) -> int:
        """Return the version to write now; without any reports, there are no older workers.

        A partition that already has rows of version `there` keeps it, because older workers cannot take it over anyway.
        """
        if self._wanted:
            return self._wanted
        lowest = self._reports.lowest_version
        return VERSION if lowest is None else max(there, min(VERSION, lowest))
