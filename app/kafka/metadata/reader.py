"""Reads the committed records of one partition directly, for recovery and for inspecting single records."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import aiokafka.errors as kafka
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from app.base.process.skipped_records import passed_over
from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.offsets import WantedOffset
from app.kafka.patches import lenient_records
from app.kafka.patches.leader_epochs import epoch_of
from punctual import batches

T = TypeVar("T")

_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_EARLIEST, _LATEST = -2, -1
_FETCH_BYTES, _CHUNK = 4 << 20, 1_000
#: Maximum bytes of a batch that is unpacked on the event loop, in about a millisecond; a thread unpacks larger ones.
#: And the bytes of batches that go into one chunk, not counting the last batch.
_AT_ONCE, _CHUNK_BYTES = 1 << 20, 4 << 20
_WAIT_MS = 200
_BACKOFF_S = 0.1
_ABORT = 0
_CONTROL_KEY = struct.Struct(">hh")  # version, type: 0 abort, 1 commit


class Stored(NamedTuple):
    """A record as stored in a partition."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class PartitionReader:
    """Reads one partition from an offset on; waits while brokers are down."""

    #: Errors that waiting does not resolve.
    _final: tuple[type[kafka.KafkaError], ...] = (kafka.OffsetOutOfRangeError,)

    def __init__(
        self, cluster: Cluster, topic: str, partition: int, offset: int = 0, *, fetch_bytes: int = _FETCH_BYTES
    ) -> None:
        """Start at `offset` of a topic's partition; `fetch_bytes` is the maximum of a fetch."""
        self._cluster, self._topic, self._partition = cluster, topic, partition
        self._position, self._fetch_bytes = offset, fetch_bytes
        self._next_fetch = offset
        #: The rest of the last fetch: batches, the batch to be unpacked next, the runs of the batch that is being read,
        #: and the rest of one run.
        self._batches: Iterator[tuple[Any, memoryview]] = iter(())
        self._batch: tuple[Any, memoryview] | None = None
        self._runs: Iterator[list[Stored]] = iter(())
        self._run: list[Stored] = []

    @classmethod
    async def at_end(cls, cluster: Cluster, topic: str, partition: int) -> Self:
        """Return a reader that starts after the last record, committed or not."""
        return cls(cluster, topic, partition, await cls(cluster, topic, partition).written_end())

    @classmethod
    async def last(cls, cluster: Cluster, topic: str, partition: int, count: int) -> AsyncIterator[Stored]:
        """Yield the last `count` committed records of a partition, oldest first; fewer if offsets are missing."""
        end = await cls(cluster, topic, partition).end()
        start = max(await cls(cluster, topic, partition).begin(), end - count)
        async for record in cls(cluster, topic, partition, start).up_to(end):
            yield record

    async def begin(self) -> int:
        """Return the offset of the first existing record."""
        return await self._offset(_EARLIEST)

    async def end(self) -> int:
        """Return the offset after the last committed record."""
        return await self._offset(_LATEST)

    async def written_end(self) -> int:
        """Return the offset after the last record, committed or not.

        A commit is confirmed before its records can be read, because markers follow later (KIP-98). So a record that
        its writer knows to be committed can lie beyond end().
        """
        return await self._offset(_LATEST, _READ_UNCOMMITTED)

    async def after(self, at_ms: int) -> int:
        """Return the offset of the first record that was written after a time (epoch ms), or the end."""
        offset = await self._offset(at_ms + 1)
        return offset if offset >= 0 else await self.end()

    async def position(self) -> int:
        """Return the offset of the next record to be read."""
        return self._position

    async def chunk(self, limit: int) -> list[Stored]:
        """Return the next records, at most `limit`; none if none arrives soon."""
        records = await self._drain(limit)
        if not records:
            await self._fetch()
            records = await self._drain(limit)
        await asyncio.sleep(0)
        return records

    async def up_to(self, end: int, chunk: int = _CHUNK) -> AsyncIterator[Stored]:
        """Yield the records before `end`, in steps of `chunk`; the last step can yield some beyond it."""
        while await self.position() < end:
            for record in await self.chunk(chunk):
                yield record

    async def _drain(self, limit: int) -> list[Stored]:
        """Return the next records of the last fetch, if any are left."""
        records: list[Stored] = []
        size = 0
        while len(records) < limit and (size < _CHUNK_BYTES or not records) and self._look():
            if self._batch is not None:
                size += await self._unpack(*self._batch)
                self._batch = None  # not earlier: the caller may be cancelled while it waits, and call again
                continue
            some = self._run[: limit - len(records)]
            self._run = self._run[len(some) :]
            records += some
        self._look()
        self._position = records[-1].offset + 1 if self._run else self._next_fetch
        return records

    def _look(self) -> bool:
        """Return whether the last fetch has records left, in the current batch or another."""
        self._run = self._run or next(self._runs, [])
        if not self._run and self._batch is None:
            self._batch = next(self._batches, None)
        return bool(self._run) or self._batch is not None

    async def _unpack(self, batch: Any, raw: memoryview) -> int:
        """Start to read a batch, and return its bytes when unpacked; an unreadable batch is skipped."""
        start = self._next_fetch
        try:
            try:
                plain = batches.plain(raw, _AT_ONCE)
            except batches.TooLargeError:
                plain = await asyncio.to_thread(batches.plain, raw)
            batches.check_headers(plain)
        except batches.UnreadableError as error:
            self._pass_over(batch.base_offset, error)
            plain = b""
        self._next_fetch = max(self._next_fetch, batch.next_offset)
        if plain:
            compressed = batch.magic > 1 and batches.codec_of(raw)
            reader = DefaultRecordBatch(plain) if compressed else batch
            self._runs = _from(start, lenient_records.runs(reader, plain, _stored))
        return len(plain)

    def _pass_over(self, offset: int, error: batches.UnreadableError) -> None:
        passed_over(self._topic, self._partition, offset, error)

    async def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that stored the record at the position; None if either is not known.

        Raises aiokafka's OffsetOutOfRangeError.
        """
        _, raw = await self._fetch_raw()
        part, batch = next(batches.batches(raw), None), MemoryRecords(raw).next_batch()
        # If no record is left at the position, the fetch begins after it.
        return None if part is None or batch.base_offset > self._position else epoch_of(part)

    async def _fetch(self) -> None:
        aborted, raw = await self._fetch_raw()
        self._batches = self._readable(raw, aborted)

    async def _fetch_raw(self) -> tuple[list[tuple[int, int]], bytes]:
        where = [(self._topic, [(self._partition, self._next_fetch, self._fetch_bytes)])]
        request = FetchRequest(_WAIT_MS, 1, self._fetch_bytes, _READ_COMMITTED, where)
        response = await self._ask(
            lambda leader: self._cluster.client.send(leader, request, group="read"),
            lambda answer: answer.topics[0][1][0][1],
        )
        _, _, _, _, _, aborted, *_, raw = response.topics[0][1][0]
        return aborted or [], bytes(raw or b"")

    def _readable(self, raw: bytes, aborted: list[tuple[int, int]]) -> Iterator[tuple[Any, memoryview]]:
        """Yield the batches of a fetch without control batches and aborted transactions (KIP-98)."""
        waiting = sorted(aborted, key=lambda item: item[1])
        dead: set[int] = set()
        records = MemoryRecords(raw)
        for part in batches.batches(raw):
            batch = records.next_batch()
            while waiting and waiting[0][1] <= batch.base_offset:
                dead.add(waiting.pop(0)[0])
            if batch.is_control_batch:
                marker = next(iter(batch), None)  # compaction may have left only the batch without its records
                if marker is not None and _CONTROL_KEY.unpack(marker.key)[1] == _ABORT:
                    dead.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in dead):
                yield batch, part
            self._next_fetch = max(self._next_fetch, batch.next_offset)

    async def _offset(self, which: int, isolation: int = _READ_COMMITTED) -> int:
        tp = (self._topic, self._partition)
        answer = await self._ask(
            lambda leader: self._cluster.offsets.ask(WantedOffset(leader, isolation, which), tp),
            lambda answer: answer.error_code,
        )
        return answer.offset

    async def _ask(self, ask: Callable[[int], Awaitable[T]], error_of: Callable[[T], int]) -> T:
        """Send a request to the partition's leader until it answers; after each failure, find the leader again.

        Raises aiokafka's OffsetOutOfRangeError.
        """
        while True:
            if self._cluster.leader(self._topic, self._partition) is None:
                await self._look_for_leader()
            leader = self._cluster.leader(self._topic, self._partition)
            if leader is not None:
                answer = await self._once(leader, ask, error_of)
                if answer is not None:
                    return answer
                # After a refusal as well as without an answer, because another broker may lead by now without any other
                # sign.
                await self._look_for_leader()
            await asyncio.sleep(_BACKOFF_S)

    async def _once(self, leader: int, ask: Callable[[int], Awaitable[T]], error_of: Callable[[T], int]) -> T | None:
        """Send a request to a leader once; return None if it does not answer, or if another try may succeed."""
        try:
            response = await ask(leader)
        except kafka.KafkaError as failure:
            if isinstance(failure, self._final):
                raise
            return None  # the broker is down, which its connection logs
        error = kafka.for_code(error_of(response))
        if issubclass(error, self._final):
            raise error(f"{self._topic}-{self._partition}: {self._next_fetch}")
        return response if error is kafka.NoError else None

    async def _look_for_leader(self) -> None:
        with contextlib.suppress(kafka.KafkaError):  # no broker answers: the caller tries again
            await self._cluster.refresh([self._topic])


def _stored(record: Any) -> Stored:
    return Stored(record.offset, record.timestamp, record.key, record.value, record.headers)


def _from(start: int, runs: Iterator[list[Stored]]) -> Iterator[list[Stored]]:
    """Yield the records from the offset `start` on: a fetch returns whole batches, which can begin earlier."""
    for run in runs:
        if run[0].offset >= start:
            yield run
        elif records := [one for one in run if one.offset >= start]:
            yield records


class ForeignReader(PartitionReader):
    """A reader of a foreign topic. Raises aiokafka's errors, too, if the topic is missing or may not be read."""

    _final = (
        kafka.OffsetOutOfRangeError,
        kafka.TopicAuthorizationFailedError,
        kafka.UnknownTopicOrPartitionError,
    )

    def _pass_over(self, offset: int, error: batches.UnreadableError) -> None:
        """Do not count it: there may be many such topics, and their content belongs to others."""


class WrittenReader(PartitionReader):
    """A reader whose end is the last record's, committed or not: it waits until all transactions have ended."""

    async def end(self) -> int:
        """Return the offset after the last record."""
        return await self._offset(_LATEST, _READ_UNCOMMITTED)
