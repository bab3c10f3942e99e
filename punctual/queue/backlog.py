"""How far the worker is behind with a queue's markers: an acknowledgement that it has not read keeps nothing back."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from punctual.client.connection import Connection

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.5
#: Longer than the group of the workers takes to share its partitions out when one of them is gone.
_STANDS_S: Final = 20.0


class Backlog:
    """Compares what was sent with what the worker's group has committed, twice a second. Belongs to one event loop."""

    def __init__(self, connection: Connection, clock: Callable[[], float]) -> None:
        """Watch what goes through a connection; `clock` gives seconds."""
        self._connection, self._clock = connection, clock
        #: What was sent up to a time, by partition, as far as the worker may not have read it.
        self._sent = deque[tuple[float, dict[int, int]]]()
        #: What the worker had read when it last went on, and when that was.
        self._read: Mapping[int, int] = {}
        self._moved_s = clock()

    @property
    def lag_s(self) -> float:
        """How long ago the oldest marker was sent that the worker may not have read; 0 if it has read all."""
        return self._clock() - self._sent[0][0] if self._sent else 0.0

    def exceeds(self, limit_s: float) -> bool:
        """Whether the worker works and is behind by more than that.

        One that does not go on at all is away: when it is back it reads what waits before it delivers anything.
        """
        return self.lag_s > limit_s and self._clock() - self._moved_s < _STANDS_S

    def note(self) -> None:
        """Note what has been sent by now."""
        sent = dict(self._connection.ends)
        if sent and (not self._sent or self._sent[-1][1] != sent):
            self._sent.append((self._clock(), sent))

    def read(self, committed: Mapping[int, int]) -> None:
        """Hear which offset is next for the worker, by partition; nothing is known of those that are not named."""
        if committed != self._read:
            self._read, self._moved_s = committed, self._clock()
        while self._sent and not any(
            committed.get(place, offset + 1) <= offset for place, offset in self._sent[0][1].items()
        ):
            self._sent.popleft()

    async def watch(self, servers: str | Sequence[str], group: str, kafka: Mapping[str, Any]) -> None:
        """Look, until cancelled; where this user may not see the group's offsets, there is no lag to be known."""
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
            log.warning("how far the worker is behind is not known (%s): allow DESCRIBE on its group %s", error, group)
        finally:
            await consumer.stop()
