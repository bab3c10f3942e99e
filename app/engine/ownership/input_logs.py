"""The inputs of a partition: their ends, the offsets to continue from, and whether they are the logs read before."""

import asyncio
import logging
from collections.abc import Collection
from typing import NamedTuple

import aiokafka.errors as kafka
import msgspec

from app.base.clock import Clock
from app.base.errors import PartitionStopped
from app.base.process.skipped_records import note_deleted
from app.engine.commit.journal import Journal
from app.engine.ingest.ingest import crc_of
from app.engine.steps.step import Step
from app.kafka import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.kafka.metadata.request_coalescer import RequestCoalescer
from app.kafka.metadata.topic_ids import topic_ids
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from punctual.contract.events import Event
from tables import PartitionStore, Position
from tables.commands import UNKNOWN_MS

log = logging.getLogger(__name__)

_AGAIN_S = 0.1


class _InputLog(NamedTuple):
    """A partition of an input: its topic's id, "" if it is not known, and its first offset."""

    topic: str
    number: int
    id: str
    begin: int

    def __str__(self) -> str:
        """Return the topic and partition as text."""
        return f"{self.topic}-{self.number}"


class InputLogs:
    """Inspects the inputs of an installation, including the forwards."""

    def __init__(
        self,
        topics: TopicSettings,
        engine: EngineSettings,
        cluster: Cluster,
        clock: Clock,
        journal: Journal,
        producers_time: Collection[str] = (),
    ) -> None:
        """Read from `cluster`; topics with `producers_time` have timestamps that producers, not brokers, have set."""
        self._topics, self._engine, self._cluster, self._clock, self._journal = topics, engine, cluster, clock, journal
        self._producers_time = producers_time
        self._id_of = RequestCoalescer(self._ids)
        self.topics = (*topics.inputs, topics.forwards)

    async def ends(self, number: int) -> dict[str, int]:
        """Return the end offsets of a partition's inputs."""
        return {topic: await self._reader(topic, number).end() for topic in self.topics}

    async def forwarded_end(self, number: int) -> int:
        """Return the end of a partition's forwards; with exactly once, the last forwards may not be readable yet."""
        return await self._reader(self._topics.forwards, number).written_end()

    async def positions(self, number: int, store: PartitionStore) -> dict[str, int]:
        """Return the offset to continue from in each input, after checking that the logs are the same as before.

        A log that lost its last records continues at its end, with an event. A new log is read from its first offset,
        which is stored, so that records that are deleted before they are read are noticed. Raises PartitionStopped if
        one is another log.
        """
        now_ms = self._clock.now_ms()  # before offset_ms, because it notices jumps
        step = Step(now_ms, now_ms - self._clock.offset_ms)
        offsets = {}
        for topic in self.topics:
            input_log = _InputLog(topic, number, await self._id_of(topic), await self._reader(topic, number).begin())
            position = store.positions.get(topic)
            if position is None or _is_unread_former(input_log, position):
                offsets[topic] = input_log.begin
                step.changes.positions[topic] = Position(input_log.begin, -1, 0, log=input_log.id)
                continue
            following = await self._following(step, input_log, position)
            if following.offset != position.offset or following.base != position.base:
                step.changes.positions[topic] = following
            else:
                store.positions[topic] = following  # the next step that reads a record writes the id
            offsets[topic] = max(input_log.begin, following.offset)
        if step:
            await self._journal.commit(number, step)
        return offsets

    async def _following(self, step: Step, input_log: _InputLog, position: Position) -> Position:
        """Return the position to continue from in an input that was read before. Raises PartitionStopped."""
        trouble = await self._differs(input_log, position)
        if not trouble:
            if input_log.begin > position.offset:
                note_deleted(input_log.topic, input_log.number, position.offset, input_log.begin)
            return msgspec.structs.replace(position, log=input_log.id or position.log)
        if await self._is_same(input_log, position):
            return await self._truncated(step, input_log, position, trouble)
        why = "it was deleted and created again, and may contain unread commands"
        return self._from_its_start(input_log, position, f"{trouble}: {why}", ", or restore the old one")

    async def _differs(self, input_log: _InputLog, position: Position) -> str:
        """Return how a topic differs from the topic that was read before, or an empty string."""
        if position.timestamp_ms < 0:
            return ""
        if position.log and input_log.id and position.log != input_log.id:
            return f"{input_log} has a different topic id than when it was last read"
        end = await self._reader(input_log.topic, input_log.number).end()
        if position.offset > end:
            return f"{input_log} ends at offset {end}, but was read up to {position.offset}"
        last = position.offset - 1
        if input_log.begin <= last and not await self._has(input_log, position):
            return f"{input_log} has a different record at offset {last} than when it was last read"
        return ""

    async def _has(self, input_log: _InputLog, position: Position) -> bool:
        """Return whether an input has the last record that was read, as far as this can be determined."""
        last = position.offset - 1
        reader = self._reader(input_log.topic, input_log.number, last)
        while await reader.position() <= last:
            for record in await reader.chunk(1):
                same = (record.timestamp_ms, crc_of(record.key, record.value)) == (position.timestamp_ms, position.crc)
                return same or record.offset != last
        return True

    async def _is_same(self, input_log: _InputLog, position: Position) -> bool:
        """Return whether a log is the same as before, although records that were read are missing."""
        if position.log and input_log.id:
            return position.log == input_log.id
        if input_log.topic in self._producers_time:
            return False
        # Without ids: a record older than the last record read cannot be in a new topic.
        for record in await self._reader(input_log.topic, input_log.number, input_log.begin).chunk(1):
            return record.timestamp_ms <= position.timestamp_ms
        return False

    async def _truncated(self, step: Step, input_log: _InputLog, position: Position, trouble: str) -> Position:
        """Return the position to continue from in a log that has lost its last records, and add an event for the loss.

        Raises PartitionStopped if the position cannot be determined.
        """
        if input_log.topic in self._producers_time:
            why = (
                "it has lost records that were read, and new records may have arrived since. Producers' timestamps "
                "cannot show which records are new"
            )
            again = ". Requests are then processed again, even if their messages were delivered"
            return self._from_its_start(input_log, position, f"{trouble}: {why}", again)
        # New records were appended later than the last record that was read.
        after = await self._reader(input_log.topic, input_log.number).after(position.timestamp_ms)
        at = min(position.offset, after)
        base, lost = position.base, position.offset - at
        first, last = (f"{input_log}-{offset + base}" for offset in (at, position.offset - 1))
        log.error(
            "%s: it has lost its last records. The worker continues from offset %d. Records %s to %s had been read; "
            "requests that were written after them are lost and must be sent again. Check that min.insync.replicas "
            "is 2 or more, and why the brokers lost records.",
            trouble,
            at,
            first,
            last,
            extra={"topic": input_log.topic, "partition": input_log.number, "offset": at},
        )
        step.tell(Event("truncated", str(input_log), step.now_ms, first, by=last))
        return Position(at, -1, 0, base + lost, max(position.stamp_ms, position.timestamp_ms), input_log.id)

    def _from_its_start(self, input_log: _InputLog, position: Position, trouble: str, more: str) -> Position:
        """Return the start of an input, if its operator has accepted to read it from there.

        Otherwise raises PartitionStopped with instructions, extended by `more`.
        """
        if not self._engine.accepts_recreated(input_log.topic):
            way_on = f"Set DELAY_ACCEPT_LOSS=recreated:{input_log.topic} and restart to read it from its start{more}."
            raise PartitionStopped(f"{trouble}. {way_on}")
        base = position.base + position.offset - input_log.begin
        log.warning(
            "%s. Accepted by DELAY_ACCEPT_LOSS: the worker reads it from offset %d, which is offset %d in "
            "sources and automatic ids",
            trouble,
            input_log.begin,
            input_log.begin + base,
            extra={"topic": input_log.topic, "partition": input_log.number, "offset": input_log.begin},
        )
        return Position(input_log.begin, -1, 0, base, max(position.stamp_ms, position.timestamp_ms), input_log.id)

    async def _ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of topics, "" for unknown ones; waits for brokers that are down."""
        while True:
            try:
                ids = await topic_ids(self._cluster, topics)
            except kafka.KafkaError as error:
                log.debug("no topic ids: %r", error)
                await asyncio.sleep(_AGAIN_S)
            else:
                return {topic: ids.get(topic, ("", 0))[0] for topic in topics}

    def _reader(self, topic: str, number: int, offset: int = 0) -> PartitionReader:
        return PartitionReader(self._cluster, topic, number, offset)


def _is_unread_former(input_log: _InputLog, position: Position) -> bool:
    """Return whether a position belongs to a former log without any record read."""
    unread = position.timestamp_ms < 0 and position.stamp_ms == UNKNOWN_MS
    return unread and bool(position.log and input_log.id) and position.log != input_log.id
