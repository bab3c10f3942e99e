"""The input topics of a partition: where they end, where to read on, and whether they are the logs that were read."""

import logging

from app.clock import Clock
from app.errors import PartitionStopped
from app.ingest.ingest import crc_of
from app.kafka import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.settings import Settings
from tables import Changes, PartitionStore, Position

log = logging.getLogger(__name__)


class InputLogs:
    """Looks into the inputs of an installation, the forwards among them."""

    def __init__(self, settings: Settings, cluster: Cluster, clock: Clock) -> None:
        """Look by `cluster`."""
        self._settings, self._cluster, self._clock = settings, cluster, clock
        self.topics = (*settings.inputs, settings.forwards)

    async def ends(self, number: int) -> dict[str, int]:
        """Return where a partition's inputs end."""
        return {topic: await self._reader(topic, number).end() for topic in self.topics}

    async def forwarded_end(self, number: int) -> int:
        """Return where a partition's forwards end; exactly once, what was forwarded may not be readable yet."""
        return await self._reader(self._settings.forwards, number).written_end()

    async def positions(self, number: int, store: PartitionStore) -> dict[str, int]:
        """Return where to read on in each input; sees that they are the same logs as before.

        Raises PartitionStopped if one is not.
        """
        offsets = {}
        for topic in self.topics:
            position = store.positions.get(topic)
            begin = await self._reader(topic, number).begin()
            if position is None:
                offsets[topic] = begin
                continue
            trouble = await self._differs(topic, number, position, begin)
            if trouble and topic in self._settings.accept_recreated:
                base = position.base + position.offset - begin
                log.warning(
                    "%s, accepted by DELAY_ACCEPT_RECREATED: read from offset %d on, which sources and automatic ids "
                    "call %d",
                    trouble,
                    begin,
                    begin + base,
                    extra={"topic": topic, "partition": number, "offset": begin},
                )
                changes = Changes()
                changes.positions[topic] = Position(begin, -1, 0, base, max(position.stamp_ms, position.timestamp_ms))
                store.apply(changes, store.offset, store.writer, self._clock.wall_ms())
            elif trouble:
                msg = (
                    f"{trouble}: it was deleted and created again, and commands in it may be unread. Nothing is "
                    f"skipped silently: set DELAY_ACCEPT_RECREATED={topic} and restart to read the new one from its "
                    "start, or restore the old one."
                )
                raise PartitionStopped(msg)
            elif begin > position.offset:
                log.error(
                    "%s-%d: records %d to %d were deleted before they were read: the topic's retention is shorter than "
                    "the lag. Raise its retention.ms; what is lost must be sent again.",
                    topic,
                    number,
                    position.offset,
                    begin - 1,
                    extra={"topic": topic, "partition": number, "offset": position.offset},
                )
            offsets[topic] = max(begin, store.positions[topic].offset)
        return offsets

    async def _differs(self, topic: str, number: int, position: Position, begin: int) -> str:
        """Say how a topic differs from the one that was read before, or nothing."""
        if position.timestamp_ms < 0:
            return ""
        end = await self._reader(topic, number).end()
        last = position.offset - 1
        if position.offset > end:
            return f"{topic}-{number} ends at offset {end}, it was read up to {position.offset}"
        if begin > last:
            return ""
        reader = self._reader(topic, number, last)
        while await reader.position() <= last:
            for record in await reader.chunk(1):
                same = (record.timestamp_ms, crc_of(record.key, record.value)) == (position.timestamp_ms, position.crc)
                if record.offset == last and not same:
                    return f"{topic}-{number} has another record at offset {last} than when it was read"
                return ""
        return ""

    def _reader(self, topic: str, number: int, offset: int = 0) -> PartitionReader:
        return PartitionReader(self._cluster, topic, number, offset)
