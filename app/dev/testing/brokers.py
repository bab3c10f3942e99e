"""A cluster and HTTP receivers in memory, in place of app.kafka's classes and the HTTP client."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from aiokafka.record.memory_records import MemoryRecords

from app.base.clock import Clock
from app.base.http.allow_list import Allowed
from app.base.http.answers import HttpOutcome, answer_of
from app.dev.testing.records import Headers, Post, Record, time_of
from app.kafka import Ack, Batch


class Brokers:
    """Acknowledges every batch at once, and keeps the records, except for the changelog, which the table has."""

    def __init__(
        self, clock: Clock, own: Mapping[str, int], topics: Mapping[str, int] | None, cluster: str | None = None
    ) -> None:
        """Have `topics` with these numbers of partitions, and the installation's `own`; None is any topic with one."""
        self._clock, self._own, self._topics, self._cluster = clock, own, topics, cluster
        self._ends = Counter[tuple[str, int]]()
        #: All records in the order of their writing, without those of topics in `left_out`.
        self.written: list[Record] = []
        self.left_out: Collection[str] = ()
        #: Called with each record.
        self.told: Callable[[Record], None] = lambda _: None

    def append(self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers) -> Record:
        """Write a record."""
        place = topic, partition
        record = Record(topic, partition, self._ends[place], self._clock.wall_ms(), key, value, headers, self._cluster)
        self._ends[place] += 1
        if topic not in self.left_out:
            self.written.append(record)
            self.told(record)
        return record

    # as a cluster ----------------------------------------------------------------------------------------------------
    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it does not exist."""
        if topic in self._own:
            return self._own[topic]
        return 1 if self._topics is None else self._topics.get(topic, 0)

    async def learn(self, topics: Iterable[str]) -> None:
        """Do no work, because all topics are known."""

    async def refresh(self, topics: Iterable[str]) -> set[str]:
        """Return the topics that do not exist."""
        return {topic for topic in topics if not self.partitions(topic)}

    # as a sender -----------------------------------------------------------------------------------------------------
    def submit(self, topic: str, partition: int, batch: Batch, *, first: bool = False) -> "asyncio.Future[Ack]":  # noqa: ARG002 - nothing waits
        """Write a batch, and acknowledge it."""
        offset = self._ends[topic, partition]
        if topic in self.left_out:
            self._ends[topic, partition] += batch.count
        else:
            for record in MemoryRecords(batch.build(1, 0, 0)).next_batch():
                self.append(topic, partition, record.key, record.value, tuple(record.headers))
        acked: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        acked.set_result(Ack(offset, self._clock.wall_ms()))
        return acked

    def blocked(self, topic: str, partition: int) -> bool:  # noqa: ARG002 - the sender's signature
        """Return False: every partition accepts messages."""
        return False

    def blocked_s(self, topic: str, partition: int) -> float:  # noqa: ARG002 - the sender's signature
        """Return 0: no partition has ever failed."""
        return 0.0

    def trouble(self, topic: str, partition: int) -> str:  # noqa: ARG002 - the sender's signature
        """Return an empty text: there is never an error."""
        return ""

    def recall(self, topic: str, partition: int) -> None:
        """Do no work: every batch is written at once."""

    def give_up(self, topic: str, partition: int) -> None:
        """Do no work: every batch is written at once."""


class Web:
    """Replaces the worker's HTTP client: hosts answer with the status that the test's `respond` returns."""

    def __init__(self, clock: Clock, respond: Callable[[Post], int], failed: Callable[[BaseException], None]) -> None:
        """Answer with the status that `respond` returns; `failed` is called with its exceptions, such as assertions."""
        self._clock, self._respond, self._failed = clock, respond, failed
        self.posts: list[Post] = []

    async def post(self, to: Allowed, body: bytes, headers: Sequence[tuple[str, str]]) -> HttpOutcome:
        """Receive a POST, and return the meaning of the response."""
        now_ms = self._clock.wall_ms()
        post = Post(str(to.target.url), body, tuple(headers), time_of(now_ms))
        try:
            post = replace(post, status=self._respond(post))
        except Exception as error:
            self._failed(error)
            raise
        self.posts.append(post)
        return answer_of(post.status, None, now_ms)

    async def stop(self) -> None:
        """Do no work: there are no connections."""
