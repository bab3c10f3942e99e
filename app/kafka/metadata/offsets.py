"""First and last offsets of partitions, as returned by their leaders."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from aiokafka.protocol.offset import OffsetRequest

from app.kafka.metadata.request_coalescer import RequestCoalescer

#: A topic and the number of one of its partitions.
TopicPartition = tuple[str, int]


_CONSUMER = -1


class WantedOffset(NamedTuple):
    """A kind of offset, and the leader that returns it: -2 the earliest, -1 the latest, or the first from epoch ms on.

    Isolation 0 includes all records, 1 only committed ones.
    """

    leader: int
    isolation: int
    which: int


class OffsetAnswer(NamedTuple):
    """A partition's offset, or the error code if there is none."""

    error_code: int
    offset: int


class Offsets:
    """Requests the offsets of many partitions in few requests."""

    def __init__(self, send: Callable[[int, Any], Any]) -> None:
        """Send requests with `send`, whose arguments are a broker and a request."""
        self._send = send
        self._asking: dict[WantedOffset, RequestCoalescer[TopicPartition, OffsetAnswer]] = {}

    async def ask(self, wanted: WantedOffset, tp: TopicPartition) -> OffsetAnswer:
        """Return an offset of one partition.

        Raises aiokafka.errors.KafkaError if the leader does not answer.
        """
        if wanted.which >= 0:  # times differ, so these requests cannot be shared
            return (await self._ask(wanted, [tp]))[tp]
        if wanted not in self._asking:
            self._asking[wanted] = RequestCoalescer(partial(self._ask, wanted))
        return await self._asking[wanted](tp)

    async def _ask(self, wanted: WantedOffset, tps: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAnswer]:
        topics: dict[str, list[tuple[int, int]]] = {}
        for topic, number in tps:
            topics.setdefault(topic, []).append((number, wanted.which))
        response = await self._send(wanted.leader, OffsetRequest(_CONSUMER, wanted.isolation, list(topics.items())))
        return {
            (topic, number): OffsetAnswer(code, offset)
            for topic, partitions in response.topics
            for number, code, _, offset, *_ in partitions
        }
