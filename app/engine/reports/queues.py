"""Reports of the consumers of acknowledged queues for the console, if the installation has a topic for reports."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import aiokafka.errors
import msgspec

from app.base.places import Places
from app.base.process.skipped_records import decoded
from app.kafka import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.settings.topics import TopicSettings
from punctual.contract.queue_report import QueueReport

#: Seconds between checks for the topic, between reads, and the maximum time of a read.
_LOOK_S, _EVERY_S, _LIMIT_S = 30.0, 1.0, 5.0
#: Records that are read at first, some minutes of many consumers: older ones are outdated.
_LAST = 10_000

#: Consumers report every five seconds, and withdraw their report when they stop normally.
SILENT_MS: Final = 20_000

#: Maximum number of consumers, and of those of one topic: 2,000 are summed up in some 10 ms. A group alone gets half of
#: its topic's places, and all topics that this worker does not know share one topic's, so that invented consumers leave
#: places for real ones.
_CONSUMERS, _OF_TOPIC = 2_000, 400

log = logging.getLogger(__name__)

_decode = msgspec.json.Decoder(QueueReport).decode


class Said(NamedTuple):
    """A consumer's last report, and when it was read (or, at the start, written) in epoch ms."""

    report: QueueReport
    at_ms: int


class _ConsumerRoom:
    """Places for consumers, by topic and group."""

    def __init__(self) -> None:
        self._all, self._of_topic = Places(_CONSUMERS), dict[str, Places]()

    def take(self, topic: str, group: str) -> bool:
        """Take a place for a consumer; return whether there was one."""
        groups = self._of_topic.get(topic) or Places(_OF_TOPIC)
        if not groups.take(group):
            return False
        if not self._all.take(topic):
            groups.leave(group)
            return False
        self._of_topic[topic] = groups
        return True

    def leave(self, topic: str, group: str) -> None:
        """Release a consumer's place."""
        self._all.leave(topic)
        self._of_topic[topic].leave(group)
        if not len(self._of_topic[topic]):
            del self._of_topic[topic]


class Queues:
    """Follows the topic of the installation's queues, which may be missing."""

    def __init__(self, topics: TopicSettings, cluster: Cluster, now_ms: Callable[[], int]) -> None:
        """Follow the topic in `topics` on `cluster`; `now_ms` is the worker's clock."""
        self._topic, self._cluster, self._now_ms = topics.queues, cluster, now_ms
        self._reader: PartitionReader | None = None
        self._known: dict[bytes, Said] = {}
        #: The places that are left, and the place that each consumer has.
        self._room, self._places = _ConsumerRoom(), dict[bytes, tuple[str, str]]()
        self._full = False

    @property
    def known(self) -> list[Said]:
        """The last report of each consumer."""
        return list(self._known.values())

    async def run(self) -> None:
        """Follow the topic until cancelled."""
        while True:
            there = await self._read()
            await asyncio.sleep(_EVERY_S if there else _LOOK_S)

    async def _read(self) -> bool:
        """Read to the topic's end; return False if it does not exist or cannot be read."""
        try:
            async with asyncio.timeout(_LIMIT_S):
                if not self._cluster.partitions(self._topic) and await self._cluster.refresh([self._topic]):
                    self._forget()
                    return False
                await self._read_on()
            self._drop_silent()
        except aiokafka.errors.OffsetOutOfRangeError:
            self._forget()  # the topic was created again
        except (aiokafka.errors.KafkaError, TimeoutError):
            return False
        return True

    async def _read_on(self) -> None:
        begins = self._reader is None
        if self._reader is None:
            reader = PartitionReader(self._cluster, self._topic, 0)
            first = max(await reader.begin(), await reader.end() - _LAST)
            self._reader = PartitionReader(self._cluster, self._topic, 0, first)
        reader = self._reader
        end = await reader.end()
        if end < await reader.position():
            self._forget()  # the topic was created again
            return
        async for record in reader.up_to(end):
            self._take(record, record.timestamp_ms if begins else self._now_ms())

    def _forget(self) -> None:
        self._reader = None
        for key in list(self._known):
            self._drop(key)

    def _drop_silent(self) -> None:
        """Forget consumers that no longer report: a restarted consumer has a new name."""
        since_ms = self._now_ms() - SILENT_MS
        for key in [key for key, report in self._known.items() if report.at_ms < since_ms]:
            self._drop(key)

    def _drop(self, key: bytes) -> None:
        if self._known.pop(key, None) is not None:
            self._room.leave(*self._places.pop(key))

    def _has_place(self, key: bytes, report: QueueReport) -> bool:
        """Return whether a consumer has or gets a place."""
        place = (report.topic if self._cluster.partitions(report.topic) else "", report.group)
        if self._places.get(key) == place:
            return True
        self._drop(key)
        if self._room.take(*place):
            self._places[key] = place
            return True
        if not self._full:
            self._full = True
            log.warning(
                "%s: more consumers report than can be shown (at most %d, and %d per topic). Check who may write to "
                "this topic.",
                self._topic,
                _CONSUMERS,
                _OF_TOPIC,
                extra={"topic": self._topic},
            )
        return False

    def _take(self, record: Any, at_ms: int) -> None:
        key = record.key or b""
        if record.value is None:
            self._drop(key)
            return
        report = decoded(self._topic, 0, record.offset, record.value, _decode)
        if report is not None and report.key == key and self._has_place(key, report):
            self._known[key] = Said(report, min(at_ms, self._now_ms()))
