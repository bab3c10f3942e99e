"""Sends requests and commands to the home partition of their ID, and reads the events with their outcomes."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self

from aiokafka.errors import KafkaError

from app.engine.engine import Engine
from app.kafka.errors import SendError
from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.reader import PartitionReader
from app.kafka.patience import brokers_answer
from app.serve.actions.resend import Sending, homes_of
from app.serve.actions.writing import PATIENCE_S, NotSent, Unconfirmed, write
from app.serve.messages.outcome import PENDING, Outcome, event_of, of_event, source_of
from punctual.client.requests import Request
from punctual.contract import headers as names
from punctual.contract.request import TOPIC_NAME, Reason

_LOOK_S, _LOOKS = 0.005, 20
#: Brokers learn of a topic that was just created within seconds.
_TOPIC_LOOK_S, _TOPIC_LOOKS = 0.25, 12
_CHUNK: Final = 1_000
#: The number of events before a command that are searched for the end of its message.
_BEFORE: Final = 5_000
#: The events with which a message ends.
_ENDS: Final = ("delivered", "cancelled", "dropped", "rejected")


class EventWatch:
    """Reads events of some partitions, from its creation on."""

    def __init__(self, readers: Mapping[int, PartitionReader]) -> None:
        self._readers = readers

    @classmethod
    async def begin(cls, cluster: Cluster, topic: str, partitions: Iterable[int]) -> Self:
        """Return a watch that starts at the end of each partition. Raises a KafkaError."""
        numbers = sorted(set(partitions))
        readers = await asyncio.gather(*(PartitionReader.at_end(cluster, topic, number) for number in numbers))
        return cls(dict(zip(numbers, readers, strict=True)))

    async def outcomes(self, sources: Mapping[str, int], patience_s: float) -> Counter[str]:
        """Return the number of requests with each outcome, by event name, as events() finds them."""
        return Counter(event["event"] for event in (await self.events(sources, patience_s)).values())

    async def events(self, sources: Mapping[str, int], patience_s: float) -> dict[str, dict[str, Any]]:
        """Return the event of each request, by its source.

        `sources` are their `topic-partition-offset`, each with the partition of its ID. Requests without an event
        within `patience_s` are left out.
        """
        events, sources_of = dict[str, dict[str, Any]](), defaultdict[int, set[str]](set)
        for source, home in sources.items():
            sources_of[home].add(source)
        waits = (self._wait(home, wanted, events) for home, wanted in sources_of.items() if home in self._readers)
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*waits)
        return events

    async def _wait(self, home: int, wanted: set[str], events: dict[str, dict[str, Any]]) -> None:
        # Searching for these costs a tenth of decoding an event.
        partitions = {source.rpartition("-")[0].encode() for source in wanted}
        while wanted:
            for record in await self._readers[home].chunk(_CHUNK):
                raw = record.value or b""
                event = event_of(raw) if any(partition in raw for partition in partitions) else None
                if event is not None and (source := source_of(event)) in wanted:
                    wanted.discard(source)
                    events[source] = event


async def outcome_of(cluster: Cluster, topic: str, home: int, action: str, event: Mapping[str, Any]) -> Outcome:
    """Return the outcome that an event reports.

    If a command came too late for its message, the outcome names the event with which the message had ended, if that is
    among the last events of its partition `home`, and the brokers return them.
    """
    ended: dict[str, Any] | None = None
    if event["event"] in ("conflict", "unknown"):
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(PATIENCE_S):
                async for record in PartitionReader.last(cluster, topic, home, _BEFORE):
                    earlier = event_of(record.value)
                    if earlier is not None and earlier["id"] == event["id"] and earlier["event"] in _ENDS:
                        ended = earlier
    return of_event(action, source_of(event), event, ended)


class CommandSender:
    """Sends requests and commands, and waits for their outcomes; each wait reads one partition of the events."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._topics = engine, engine.settings.topics

    async def execute(self, action: str, records: Sequence[Sending]) -> list[Outcome | NotSent]:
        """Send records in order, and return their outcomes within ten seconds. Raises NotSent if no broker answers."""
        if action == "create":
            records = await self._with_known_topics(records)
        homes = homes_of(records, self._topics.partitions)
        async with brokers_answer(PATIENCE_S, lambda _: NotSent("the brokers do not respond; nothing was sent")):
            watch = await EventWatch.begin(self._engine.cluster, self._topics.events_topic, homes)
        sends = (self.send(one.request, one.topic, one.partition) for one in records)
        results = await asyncio.gather(*sends, return_exceptions=True)
        sources = {
            source: one.home(self._topics, int(source.rpartition("-")[2]))
            for one, source in zip(records, results, strict=True)
            if isinstance(source, str)
        }
        events = await watch.events(sources, PATIENCE_S)
        await self._applied(events)
        return [await self._outcome(action, result, sources, events) for result in results]

    async def _with_known_topics(self, records: Sequence[Sending]) -> list[Sending]:
        """Wait up to 3 s for the topics of requests; return requests for others so that they are refused at once.

        Without this, a worker would accept the request first, and reject it some seconds later.
        """
        wanted = {topic for one in records if (topic := _own_topic(one.request)) is not None}
        known = await asyncio.gather(*map(self._is_known, wanted))
        unknown = {topic for topic, is_known in zip(wanted, known, strict=True) if not is_known}
        reason = names.REASON, Reason.UNKNOWN_TOPIC.value.encode()

        def refused(one: Sending) -> Sending:
            return one._replace(request=replace(one.request, headers=(*one.request.headers, reason)))

        return [refused(one) if _own_topic(one.request) in unknown else one for one in records]

    async def _is_known(self, topic: str) -> bool:
        cluster = self._engine.cluster
        for _ in range(_TOPIC_LOOKS):
            with suppress(KafkaError):
                if cluster.partitions(topic) or not await cluster.refresh([topic]):
                    return True
            await asyncio.sleep(_TOPIC_LOOK_S)
        return False

    async def _outcome(
        self, action: str, sent: str | BaseException, sources: Mapping[str, int], events: Mapping[str, Any]
    ) -> Outcome | NotSent:
        if isinstance(sent, NotSent):
            return sent
        if isinstance(sent, BaseException):
            raise sent
        if sent in events:
            topic = self._topics.events_topic
            return await outcome_of(self._engine.cluster, topic, sources[sent], action, events[sent])
        late = f"partition {sources[sent]} has not processed it within {PATIENCE_S:g} s"
        see = "See which worker serves the partition (Workers in the console)."
        return Outcome(outcome=PENDING, sentence=f"It is sent and takes effect, but {late}. {see}", source=sent)

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
        """Send a record to a topic's partition, and return its `topic-partition-offset`. Raises NotSent."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                ack = await write(self._engine, topic, partition, request.key, request.value, list(request.headers))
        except SendError as error:
            raise NotSent(f"Kafka does not accept it: {error}") from error
        except TimeoutError as error:
            why = self._engine.sender.trouble(topic, partition) or "no response"
            sentence = f"Kafka has not confirmed it ({why}): it may still be stored"
            raise Unconfirmed(f"{sentence}. Check before you try again") from error
        return f"{topic}-{partition}-{ack.offset}"


def _own_topic(request: Request) -> str | None:
    """Return the topic of our own cluster that a request is for, None if it is for a URL or another cluster."""
    headers = dict(request.headers)
    to = (headers.get(names.TO) or b"").decode()
    return None if "://" in to or names.TO_CLUSTER in headers or not TOPIC_NAME.fullmatch(to) else to
