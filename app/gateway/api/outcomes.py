"""Outcomes of commands, from events: each partition of the events is read only while a request waits."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import aiokafka.errors

from app.gateway.spool.connection import KafkaConnection
from app.kafka.metadata.reader import PartitionReader
from app.serve.actions.commands import ending
from app.serve.messages.outcome import Outcome, event_of, of_event, tells_of
from app.settings.topics import TopicSettings

#: How long a partition is still read after the last request, because commands come in groups.
_LINGER_S: Final = 5.0
_CHUNK: Final = 1_000


class Watch:
    """The events of one ID since the watch began."""

    def __init__(self) -> None:
        """Begin without events."""
        self._events: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    def put(self, value: bytes | None) -> None:
        """Add the event in a record's value."""
        event = event_of(value)
        if event is not None:
            self._events.append(event)
            self._more.set()

    async def told(self, source: str) -> dict[str, Any]:
        """Wait for the event with the outcome of a command, a record `topic-partition-offset`, and return it."""
        looked = 0
        while True:
            for event in self._events[looked:]:
                if tells_of(event, source):
                    return event
            looked = len(self._events)
            self._more.clear()
            await self._more.wait()


class EventFollower:
    """Reads one partition of the events while at least one watch exists."""

    def __init__(self, connection: KafkaConnection, topic: str, partition: int) -> None:
        """Use `connection` to read `partition` of `topic`; reading begins with the first watch."""
        self._connection, self._topic, self._partition = connection, topic, partition
        self._watches = defaultdict[bytes, list[Watch]](list)
        self._task: asyncio.Task[None] | None = None
        self._reading = asyncio.Event()

    @contextlib.contextmanager
    def watch(self, id_: str) -> Iterator[Watch]:
        """Collect the events of an ID, from the time when begun() returns."""
        watch, key = Watch(), id_.encode()
        self._watches[key].append(watch)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield watch
        finally:
            self._watches[key].remove(watch)
            if not self._watches[key]:
                del self._watches[key]

    async def begun(self) -> None:
        """Wait until events are read."""
        await self._reading.wait()

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
            while self._watches or loop.time() < until_s:
                if self._watches:
                    until_s = loop.time() + _LINGER_S
                for record in await reader.chunk(_CHUNK):
                    for watch in self._watches.get(record.key or b"", ()):
                        watch.put(record.value)
        except aiokafka.errors.KafkaError:
            pass  # requests that wait time out, and the next watch starts again
        finally:
            self._reading.clear()
            self._task = None


class CommandOutcomes:
    """Waits for outcomes of commands."""

    def __init__(self, topics: TopicSettings, connection: KafkaConnection) -> None:
        """Read events with `connection`, once it is up."""
        self._topics, self._connection = topics, connection
        self._followers: dict[int, EventFollower] = {}

    @property
    def told(self) -> bool:
        """Whether events can be read now."""
        return self._connection.up

    def of(self, home: int) -> EventFollower:
        """Return the reader of the events of a partition."""
        if home not in self._followers:
            self._followers[home] = EventFollower(self._connection, self._topics.events_topic, home)
        return self._followers[home]

    async def outcome(self, action: str, home: int, source: str, event: dict[str, Any]) -> Outcome:
        """Return the outcome in an event, with how the message had ended before, if it had."""
        ended = None
        with contextlib.suppress(TimeoutError, aiokafka.errors.KafkaError):
            ended = await ending(self._connection.cluster, self._topics.events_topic, home, event)
        return of_event(action, source, event, ended)

    def close(self) -> None:
        """Stop reading."""
        for follower in self._followers.values():
            follower.close()
