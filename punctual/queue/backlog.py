"""The worker's lag behind a queue's markers: an acknowledgement that it has not read cannot stop a redelivery."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from punctual.client.connection import Connection

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.5
#: Longer than the group of the workers needs to reassign partitions when a worker is gone.
_STANDS_S: Final = 20.0


class Backlog:
    """Compares sent markers with the offsets committed by the worker's group, twice a second. For one event loop."""

    def __init__(self, connection: Connection, clock: Callable[[], float]) -> None:
        """Watch the markers that are sent through `connection`; `clock` returns seconds."""
        self._connection, self._clock = connection, clock
        #: The last sent offsets by partition at each time, as far as the worker may not have read them.
        self._sent = deque[tuple[float, dict[int, int]]]()
        #: The worker's committed offsets when they last changed; the next line has the time of that.
        self._read: Mapping[int, int] = {}
        self._moved_s = clock()

    @property
    def lag_s(self) -> float:
        """The age of the oldest marker that the worker may not have read; 0 if it has read all."""
        return self._clock() - self._sent[0][0] if self._sent else 0.0

    def exceeds(self, limit_s: float) -> bool:
        """Return whether the worker is making progress with a lag above `limit_s`.

        A worker without any progress is down: when it is back, it reads the markers before it delivers messages.
        """
        return self.lag_s > limit_s and self._clock() - self._moved_s < _STANDS_S

    def note(self) -> None:
        """Record the offsets of the markers sent until now."""
        sent = dict(self._connection.ends)
        if sent and (not self._sent or self._sent[-1][1] != sent):
            self._sent.append((self._clock(), sent))

    def read(self, committed: Mapping[int, int]) -> None:
        """Update the worker's next offset by partition; partitions that are missing are unknown."""
        if committed != self._read:
            self._read, self._moved_s = committed, self._clock()
        while self._sent and not any(
            committed.get(place, offset + 1) <= offset for place, offset in self._sent[0][1].items()
        ):
            self._sent.popleft()

    async def watch(self, servers: str | Sequence[str], group: str, kafka: Mapping[str, Any]) -> None:
        """Read the group's offsets until cancelled. Without permission to see them, the lag stays unknown."""
        from aiokafka import AIOKafkaConsumer, TopicPartition, errors  # noqa: PLC0415 - loaded already

        options = {**kafka, "client_id": "delay-queue", "group_id": group, "enable_auto_commit": False}
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, **options)
        try:
            await consumer.start()
            while True:
                self.note()
                places = [TopicPartition(self._connection.topic, number) for number in self._connection.ends]
                committed = {place.partition: await consumer.committed(place) for place in places}
                self.read({place: offset for place, offset in committed.items() if offset is not None})
                await asyncio.sleep(_LOOK_S)
        except (errors.KafkaError, OSError) as error:
            self._sent.clear()
            log.warning("the lag of the worker is unknown (%s): grant DESCRIBE on its group %s", error, group)
        finally:
            await consumer.stop()
