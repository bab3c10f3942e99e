"""Events for commands that wait for their outcome: each partition is read only while a request waits."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import aiokafka.errors

from app.gateway.spool.connection import KafkaConnection
from app.kafka.metadata.reader import PartitionReader
from app.serve.messages.outcome import event_of, source_of

#: How long a partition is still read after the last request, because commands come in groups.
_LINGER_S: Final = 5.0
_CHUNK: Final = 1_000


class EventQueue(asyncio.Queue[dict[str, Any]]):
    """The events of one ID."""

    async def outcome_of(self, source: str) -> dict[str, Any]:
        """Wait for the event with the outcome of a command, a record `topic-partition-offset`, and return it."""
        while source_of(event := await self.get()) != source:
            pass
        return event


class EventFollower:
    """Reads one partition of the events while at least one request waits."""

    def __init__(self, connection: KafkaConnection, topic: str, partition: int) -> None:
        self._connection, self._topic, self._partition = connection, topic, partition
        self._queues = defaultdict[bytes, list[EventQueue]](list)
        self._task: asyncio.Task[None] | None = None
        self._reading = asyncio.Event()

    @contextlib.contextmanager
    def watch(self, id_: str) -> Iterator[EventQueue]:
        """Collect the events of an ID, from the time when begun() returns True."""
        queue, key = EventQueue(), id_.encode()
        self._queues[key].append(queue)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield queue
        finally:
            self._queues[key].remove(queue)
            if not self._queues[key]:
                del self._queues[key]

    async def begun(self, patience_s: float) -> bool:
        """Wait until events are read, and return whether they are within this time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reading.wait(), patience_s)
        return self._reading.is_set()

    def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            reader = await PartitionReader.at_end(self._connection.cluster, self._topic, self._partition)
            self._reading.set()
            until_s = loop.time() + _LINGER_S
            while self._queues or loop.time() < until_s:
                if self._queues:
                    until_s = loop.time() + _LINGER_S
                for record in await reader.chunk(_CHUNK):
                    for queue in self._queues.get(record.key or b"", ()):
                        if (event := event_of(record.value)) is not None:
                            queue.put_nowait(event)
        except aiokafka.errors.KafkaError:
            pass  # requests that wait time out, and the next request starts again
        finally:
            self._reading.clear()
            self._task = None
