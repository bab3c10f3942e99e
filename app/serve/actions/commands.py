"""Sends requests and commands to the home partition of their ID, and waits for the events with their outcomes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import aiokafka.errors

from app.engine.engine import Engine
from app.kafka.errors import SendError
from app.kafka.metadata.reader import PartitionReader
from app.serve.actions.events import ending
from app.serve.actions.outcome import PENDING, Outcome, event_of, of_event, tells_of
from app.serve.actions.resend import Resend
from app.serve.actions.writing import PATIENCE_S, write
from punctual.client.requests import Request
from punctual.contract import headers as names
from punctual.contract.home import home_partition
from punctual.contract.request import TOPIC_NAME, Reason

_CHUNK: Final = 1_000
_LOOK_S, _LOOKS = 0.005, 20
#: Brokers learn of a topic that was just created within seconds.
_TOPIC_LOOK_S, _TOPIC_LOOKS = 0.25, 12


class NotSent(Exception):
    """Kafka has not accepted a request or command; the message is a sentence for users."""


class CommandSender:
    """Sends requests and commands, and waits for their outcomes; each wait reads one partition of the events."""

    def __init__(self, engine: Engine) -> None:
        """Send with `engine`'s sender."""
        self._engine, self._topics = engine, engine.settings.topics

    async def _known_topic(self, request: Request) -> Request:
        """Wait up to 3 s for the topic of a request; if it does not appear, return a request that is refused at once.

        Without this, a worker would accept the request first, and reject it some seconds later.
        """
        said = dict(request.headers)
        to, cluster = (said.get(names.TO) or b"").decode(), self._engine.cluster
        if not to or "://" in to or names.TO_CLUSTER in said or not TOPIC_NAME.fullmatch(to):
            return request
        for _ in range(_TOPIC_LOOKS):
            with suppress(aiokafka.errors.KafkaError):
                if cluster.partitions(to) or not await cluster.refresh([to]):
                    return request
            await asyncio.sleep(_TOPIC_LOOK_S)
        reason = names.REASON, Reason.UNKNOWN_TOPIC.value.encode()
        return replace(request, headers=(*request.headers, reason))

    async def execute(self, action: str, request: Request, topic: str | None = None) -> Outcome:
        """Send a record to its ID's home, on the requests topic or `topic`, and return its outcome within ten seconds.

        Raises NotSent if Kafka does not accept it.
        """
        if action == "create":
            request = await self._known_topic(request)
        home = home_partition(request.id or b"", self._topics.inputs, self._topics.partitions)
        return await self._put(action, request, topic or self._topics.requests, home, lambda _: home)

    async def resend(self, again: Resend) -> Outcome:
        """Send a dead letter again, and return its outcome, as execute() does.

        Its ID may be made from its new offset, and then have its home in any partition.
        """
        topic, partition, request, _ = again
        return await self._put("resend", request, topic, partition, lambda offset: again.home(self._topics, offset))

    async def _put(
        self, action: str, request: Request, topic: str, partition: int, home_at: Callable[[int], int]
    ) -> Outcome:
        """Send a record to an input's partition and return its outcome; `home_at` returns its ID's home by offset."""
        readers = await self._events(None if request.id is None else partition)
        source = await self.send(request, topic, partition)
        home = home_at(int(source.rpartition("-")[2]))
        try:
            async with asyncio.timeout(PATIENCE_S):
                event = await _awaited_event(readers[home], source)
            ended = await ending(self._engine.cluster, self._topics.events_topic, home, event)
        except (TimeoutError, aiokafka.errors.KafkaError):
            sentence = (
                f"It is sent and takes effect, but partition {home} has not processed it within {PATIENCE_S:g} s. "
                "See which worker serves the partition (Workers in the console)."
            )
            return Outcome(outcome=PENDING, sentence=sentence, source=source)
        await self._applied(topic, partition, source)
        return of_event(action, source, event, ended)

    async def _applied(self, topic: str, partition: int, source: str) -> None:
        """Wait until a search sees the outcome of a record, because its event is written before the table changes."""
        offset = int(source.rpartition("-")[2])
        for _ in range(_LOOKS):
            position = self._engine.position(topic, partition)
            if position is not None and position > offset:
                return
            await asyncio.sleep(_LOOK_S)  # the wait for a partition of another worker, whose position is unknown here

    async def send(self, request: Request, topic: str, partition: int) -> str:
        """Send a record to a topic's partition, and return its `topic-partition-offset`.

        Raises NotSent with a sentence if Kafka does not accept it.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                ack = await write(self._engine, topic, partition, request.key, request.value, list(request.headers))
        except SendError as error:
            raise NotSent(f"Kafka does not accept it: {error}") from error
        except TimeoutError as error:
            why = self._engine.sender.trouble(topic, partition) or "no response"
            raise NotSent(
                f"Kafka has not confirmed it ({why}): it may still be stored. Check before you try again"
            ) from error
        return f"{topic}-{partition}-{ack.offset}"

    async def _events(self, home: int | None) -> dict[int, PartitionReader]:
        """Return readers of the events from now on: of partition `home`, or of all for None."""
        cluster, topic = self._engine.cluster, self._topics.events_topic
        numbers = range(self._topics.partitions) if home is None else [home]
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await asyncio.gather(*(PartitionReader.at_end(cluster, topic, number) for number in numbers))
                return dict(zip(numbers, found, strict=True))
        except (TimeoutError, aiokafka.errors.KafkaError) as error:
            raise NotSent("the brokers do not respond; nothing was sent") from error


async def _awaited_event(reader: PartitionReader, source: str) -> dict[str, Any]:
    """Wait for the event of a record, and return it."""
    while True:
        for record in await reader.chunk(_CHUNK):
            if source.encode() in (record.value or b""):
                event = event_of(record.value)
                if event is not None and tells_of(event, source):
                    return event
