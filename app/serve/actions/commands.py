"""Sends requests and commands to the home partition of their ID, and waits for the events with their outcomes."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import aiokafka.errors

from app.engine.engine import Engine
from app.kafka.errors import SendError
from app.serve.actions.events import EventWatch, ending
from app.serve.actions.resend import Resend
from app.serve.actions.writing import PATIENCE_S, write
from app.serve.messages.outcome import PENDING, Outcome, of_event
from app.serve.web.problem import TypedProblem
from punctual.client.requests import Request
from punctual.contract import headers as names
from punctual.contract.home import home_partition
from punctual.contract.request import TOPIC_NAME, Reason

_LOOK_S, _LOOKS = 0.005, 20
#: Brokers learn of a topic that was just created within seconds.
_TOPIC_LOOK_S, _TOPIC_LOOKS = 0.25, 12


class NotSent(TypedProblem):
    """Kafka has not accepted a request or command."""

    type_name = "kafka-unavailable"


class Sending(NamedTuple):
    """A record to send: the request, its fields for the audit, and its input topic."""

    request: Request
    asked: dict[str, Any]
    topic: str


class CommandSender:
    """Sends requests and commands, and waits for their outcomes; each wait reads one partition of the events."""

    def __init__(self, engine: Engine) -> None:
        """Send with `engine`'s sender."""
        self._engine, self._topics = engine, engine.settings.topics

    async def _with_known_topics(self, requests: Sequence[tuple[Request, str]]) -> list[tuple[Request, str]]:
        """Wait up to 3 s for the topics of requests; return requests for others so that they are refused at once.

        Without this, a worker would accept the request first, and reject it some seconds later.
        """
        wanted = {topic for request, _ in requests if (topic := _own_topic(request)) is not None}
        known = await asyncio.gather(*map(self._is_known, wanted))
        unknown = {topic for topic, is_known in zip(wanted, known, strict=True) if not is_known}
        reason = names.REASON, Reason.UNKNOWN_TOPIC.value.encode()
        return [
            (replace(request, headers=(*request.headers, reason)) if _own_topic(request) in unknown else request, topic)
            for request, topic in requests
        ]

    async def _is_known(self, topic: str) -> bool:
        cluster = self._engine.cluster
        for _ in range(_TOPIC_LOOKS):
            with suppress(aiokafka.errors.KafkaError):
                if cluster.partitions(topic) or not await cluster.refresh([topic]):
                    return True
            await asyncio.sleep(_TOPIC_LOOK_S)
        return False

    async def execute(self, action: str, request: Request, topic: str | None = None) -> Outcome:
        """Send a record to its ID's home, on the requests topic or `topic`, and return its outcome within ten seconds.

        Raises NotSent if Kafka does not accept it.
        """
        return _sent_one(await self.execute_all(action, [(request, topic or self._topics.requests)]))

    async def execute_all(self, action: str, requests: Sequence[tuple[Request, str]]) -> list[Outcome | NotSent]:
        """Send records, each with its topic, in order, and return their outcomes, as execute() does."""
        if action == "create":
            requests = await self._with_known_topics(requests)
        placed = []
        for request, topic in requests:
            home = home_partition(request.id or b"", self._topics.inputs, self._topics.partitions)
            placed.append(Resend(topic, home, request, None))
        return await self._put(action, placed, {one.partition for one in placed})

    async def resend(self, again: Resend) -> Outcome:
        """Send a dead letter again, and return its outcome, as execute() does.

        Its ID may be made from its new offset, and then have its home in any partition.
        """
        homes = range(self._topics.partitions) if again.request.id is None else [again.partition]
        return _sent_one(await self._put("resend", [again], homes))

    async def _put(self, action: str, records: Sequence[Resend], homes: Iterable[int]) -> list[Outcome | NotSent]:
        """Send records to their inputs, and return their outcomes; `homes` has the partitions of their IDs."""
        watch = await self._watch(homes)
        sends = (self.send(one.request, one.topic, one.partition) for one in records)
        sent = await asyncio.gather(*sends, return_exceptions=True)
        sources = {
            source: one.partition
            if one.request.id is not None
            else one.home(self._topics, int(source.rpartition("-")[2]))
            for one, source in zip(records, sent, strict=True)
            if isinstance(source, str)
        }
        events = await watch.events(sources, PATIENCE_S)
        await self._applied(events)
        return [await self._outcome(action, one, sources, events) for one in sent]

    async def _outcome(
        self, action: str, sent: str | BaseException, sources: Mapping[str, int], events: Mapping[str, Any]
    ) -> Outcome | NotSent:
        """Return the outcome of a record from its event, or from how its sending ended."""
        if isinstance(sent, NotSent):
            return sent
        if isinstance(sent, BaseException):
            raise sent
        with suppress(TimeoutError, aiokafka.errors.KafkaError, KeyError):
            event = events[sent]
            ended = await ending(self._engine.cluster, self._topics.events_topic, sources[sent], event)
            return of_event(action, sent, event, ended)
        sentence = (
            f"It is sent and takes effect, but partition {sources[sent]} has not processed it within {PATIENCE_S:g} s. "
            "See which worker serves the partition (Workers in the console)."
        )
        return Outcome(outcome=PENDING, sentence=sentence, source=sent)

    async def _applied(self, sources: Iterable[str]) -> None:
        """Wait until a search sees the outcomes of records, because events are written before the table changes."""
        last = dict[tuple[str, int], int]()
        for source in sources:
            topic, partition, offset = source.rsplit("-", 2)
            place = topic, int(partition)
            last[place] = max(int(offset), last.get(place, 0))
        for _ in range(_LOOKS):
            positions = {place: self._engine.position(*place) for place in last}
            last = {place: offset for place, offset in last.items() if (positions[place] or 0) <= offset}
            if not last:
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

    async def _watch(self, homes: Iterable[int]) -> EventWatch:
        """Return a watch for the events of some partitions from now on. Raises NotSent."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await EventWatch.begin(self._engine.cluster, self._topics.events_topic, homes)
        except (TimeoutError, aiokafka.errors.KafkaError) as error:
            raise NotSent("the brokers do not respond; nothing was sent") from error


def _own_topic(request: Request) -> str | None:
    """Return the topic of our own cluster that a request is for, None if it is for a URL or another cluster."""
    said = dict(request.headers)
    to = (said.get(names.TO) or b"").decode()
    return None if "://" in to or names.TO_CLUSTER in said or not TOPIC_NAME.fullmatch(to) else to


def _sent_one(outcomes: Sequence[Outcome | NotSent]) -> Outcome:
    """Return the outcome of a single record. Raises NotSent."""
    [outcome] = outcomes
    if isinstance(outcome, NotSent):
        raise outcome
    return outcome
