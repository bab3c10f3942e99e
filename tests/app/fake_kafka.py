"""A scripted cluster: the test sets the response to each produce request; without one, the batch is stored."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Collection, Hashable
from typing import Any, NamedTuple

import aiokafka.errors as kafka
from aiokafka.record.memory_records import MemoryRecords

from app.kafka import Batch

Answer = int | Exception | asyncio.Event


class Sent(NamedTuple):
    """One partition's part of a produce request."""

    topic: str
    partition: int
    values: list[bytes | None]
    producer: int
    sequence: int
    group: Hashable


class Response(NamedTuple):
    """The response of a broker."""

    topics: list[tuple[str, list[tuple[int, int, int, int]]]]


class Identity(NamedTuple):
    """A new producer id."""

    error_code: int
    producer_id: int
    producer_epoch: int


class ScriptedCluster:
    """Stands where app.kafka.Cluster stands; node 0 leads everything."""

    def __init__(self, **partitions: int) -> None:
        """Create topics with this many partitions."""
        self.topics = dict(partitions)
        self.script: dict[tuple[str, int], deque[Answer]] = defaultdict(deque)
        self.attempts: list[Sent] = []
        self.stored: dict[tuple[str, int], list[bytes | None]] = defaultdict(list)
        self.identities = 0
        self.away: Exception | None = None
        self.hidden: set[str] = set()

    # requests of the sender ------------------------------------------------------------------------------------------
    @property
    def client(self) -> "ScriptedCluster":
        return self

    def leader(self, topic: str, partition: int) -> int | None:
        return 0 if partition < self.partitions(topic) and topic not in self.hidden else None

    def partitions(self, topic: str) -> int:
        return self.topics.get(topic, 0)

    async def refresh(self, topics: Collection[str]) -> set[str]:
        if self.away is not None:
            raise self.away
        return {topic for topic in topics if topic not in self.topics}

    async def ask(self, _: Any) -> Identity:
        if self.away is not None:
            raise self.away
        self.identities += 1
        return Identity(0, 100 * self.identities, 0)

    def begin(self, node: int, request: Any, *, group: Hashable) -> "asyncio.Future[Response]":
        return asyncio.ensure_future(self.send(node, request, group=group))

    async def send(self, _node: int, request: Any, *, group: Hashable) -> Response:
        if self.away is not None:
            raise self.away
        answers = []
        for topic, batches in request._topics:
            for partition, raw in batches:
                answers.append((topic, [await self._take(topic, partition, raw, group)]))
        return Response(answers)

    async def _take(self, topic: str, partition: int, raw: bytes, group: Hashable) -> tuple[int, int, int, int]:
        batch = MemoryRecords(raw).next_batch()
        values = [record.value for record in batch]
        self.attempts.append(Sent(topic, partition, values, batch.producer_id, batch.base_sequence, group))
        script = self.script[topic, partition]
        answer = script.popleft() if script else 0
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = 0
        log = self.stored[topic, partition]
        offset = len(log) if not answer else -1
        if not answer:
            log += values
        return partition, answer, offset, 1_000 + offset


def batch(*values: bytes) -> Batch:
    """Return a batch of these values."""
    made = Batch()
    for value in values:
        assert made.append(1, None, value, [])
    return made


LEADER_MOVED = kafka.NotLeaderForPartitionError.errno
TOO_LARGE = kafka.MessageSizeTooLargeError.errno
