"""Gives orders: records on the requests topic, in their id's home partition, whose events say what came of them."""

import asyncio
from typing import Any, Final

import aiokafka.errors

from app.acts.endings import ending
from app.acts.outcome import PENDING, SENT, Outcome, event_of, of_event, tells_of
from app.acts.writing import PATIENCE_S, write
from app.engine import Engine
from app.kafka.errors import SendError
from app.kafka.metadata.reader import PartitionReader
from punctual.client.requests import Request
from punctual.contract.home import home_partition

_CHUNK: Final = 1_000
_LOOK_S, _LOOKS = 0.005, 20


class NotGiven(Exception):
    """An order that Kafka has not taken: a sentence."""


class Orders:
    """Sends orders, and waits for what comes of them; each wait reads one partition of the events."""

    def __init__(self, engine: Engine) -> None:
        """Send by an engine's own sender."""
        self._engine, self._settings = engine, engine.settings

    async def give(self, act: str, request: Request, topic: str | None = None) -> Outcome:
        """Send an order to its id's home, on the requests topic or `topic`, and return what came of it in ten seconds.

        Raises NotGiven if Kafka does not take it.
        """
        home = home_partition(request.id or b"", self._settings.inputs, self._settings.partitions)
        return await self.put(act, request, topic or self._settings.requests, home)

    async def put(self, act: str, request: Request, topic: str, home: int) -> Outcome:
        """Send an order to an input's partition where its id is at home, and return what came of it, as give() does."""
        reader = await self._events(home)
        source = await self.send(request, topic, home)
        if reader is None:
            sentence = "It is sent. What comes of it nobody tells: events are switched off."
            return Outcome(outcome=SENT, sentence=sentence, source=source)
        try:
            async with asyncio.timeout(PATIENCE_S):
                event = await _told(reader, source)
            ended = await ending(self._engine.cluster, self._settings.events_topic, home, event)
        except (TimeoutError, aiokafka.errors.KafkaError):
            sentence = (
                f"It is sent, and holds, but partition {home} has not taken it up within {PATIENCE_S:g} s: "
                "the page of the workers says who serves it."
            )
            return Outcome(outcome=PENDING, sentence=sentence, source=source)
        await self._applied(topic, home, source)
        return of_event(act, source, event, ended)

    async def _applied(self, topic: str, home: int, source: str) -> None:
        """Wait until whoever looks sees what has come of an order: its event is told before the table has it."""
        offset = int(source.rpartition("-")[2])
        for _ in range(_LOOKS):
            position = self._engine.position(topic, home)
            if position is not None and position > offset:
                return
            await asyncio.sleep(_LOOK_S)  # a partition of another worker's has had this long in the end

    async def send(self, request: Request, topic: str, partition: int) -> str:
        """Send a record to a topic's partition, and return its `topic-partition-offset`.

        Raises NotGiven with a sentence if Kafka does not take it.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                ack = await write(self._engine, topic, partition, request.key, request.value, list(request.headers))
        except SendError as error:
            raise NotGiven(f"Kafka does not take it: {error}") from error
        except TimeoutError as error:
            why = self._engine.sender.trouble(topic, partition) or "it does not answer"
            raise NotGiven(
                f"Kafka has not confirmed it ({why}): it may take it yet, so look before you repeat"
            ) from error
        return f"{topic}-{partition}-{ack.offset}"

    async def _events(self, home: int) -> PartitionReader | None:
        """Return who reads the events of a partition from now on; None if there are none."""
        if self._settings.events == "off":
            return None
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await PartitionReader.at_end(self._engine.cluster, self._settings.events_topic, home)
        except (TimeoutError, aiokafka.errors.KafkaError) as error:
            raise NotGiven("the brokers do not answer: nothing was sent") from error


async def _told(reader: PartitionReader, source: str) -> dict[str, Any]:
    """Wait for the event that tells of an order."""
    while True:
        for record in await reader.chunk(_CHUNK):
            if source.encode() in (record.value or b""):
                event = event_of(record.value)
                if event is not None and tells_of(event, source):
                    return event
