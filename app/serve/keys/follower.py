"""Writes receipts to their topic, and copies the topic into the store, from the last position on, through outages."""

import asyncio
import contextlib
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from app.base.process.skipped_records import passed_over
from app.kafka.produce.batch import NO_HEADERS, Ack
from app.kafka.produce.records import send_records
from app.kafka.produce.sender import Sender
from app.serve.keys.receipt import decode
from app.serve.keys.store import KeyStore, Written
from punctual.bounded_fetch import bounded

log = logging.getLogger(__name__)

_DIGEST_BYTES: Final = 32
#: If brokers do not answer within this time at the start, they count as down.
_BEGIN_S: Final = 5.0
_AGAIN_S: Final = 0.5
_WAIT_MS: Final = 500
_RECORDS: Final = 500
#: If a batch is in flight for longer, its partition counts as down, and requests do not wait for it.
PATIENCE_S: Final = 1.0
#: The maximum records of a batch, some hundred KiB.
_MOST: Final = 1_000


class ReceiptFollower:
    """Reads all partitions, without a consumer group, and never creates the topic by reading."""

    def __init__(
        self, topic: str, store: KeyStore, ensure: Callable[[], Awaitable[int]], options: Mapping[str, Any]
    ) -> None:
        """Read into `store`; `ensure` creates the topic if it is missing, and returns its number of partitions."""
        self.caught_up = asyncio.Event()
        #: Set when brokers have answered, or have had time to.
        self.begun = asyncio.Event()
        #: Whether brokers answered the last request.
        self.connected = False
        #: The number of the topic's partitions, 0 until it is known.
        self.partitions = 0
        self._topic, self._store, self._ensure = topic, store, ensure
        self._options = {"enable_auto_commit": False, "auto_offset_reset": "earliest"} | dict(options)
        self._next: dict[int, int] = {}
        self._advanced = asyncio.Condition()

    async def run(self) -> None:
        """Follow the topic until cancelled."""
        failing = False
        asyncio.get_running_loop().call_later(_BEGIN_S, self.begun.set)
        while True:
            try:
                partitions = await self._ensure()
                await self._follow([TopicPartition(self._topic, number) for number in range(partitions)])
            except Exception as error:  # noqa: BLE001 - whatever a cluster does to its client
                self.connected = False
                self.begun.set()
                if not failing:
                    log.warning("%s cannot be read, retrying: %s", self._topic, error)
                failing = True
            await asyncio.sleep(_AGAIN_S)

    async def passed(self, partition: int, offset: int) -> None:
        """Wait until the record at an offset has been read."""
        async with self._advanced:
            await self._advanced.wait_for(lambda: self._next.get(partition, 0) > offset)

    async def _follow(self, partitions: list[TopicPartition]) -> None:
        consumer = bounded(
            AIOKafkaConsumer(fetch_max_wait_ms=_WAIT_MS, fetch_min_bytes=1, max_poll_records=_RECORDS, **self._options)
        )
        try:
            await consumer.start()
            consumer.assign(partitions)
            for tp in partitions:
                offset = self._store.next_offset(tp.partition)
                if offset is not None:
                    consumer.seek(tp, offset)
            self.partitions, self.connected = len(partitions), True
            self.begun.set()
            ends = await consumer.end_offsets(partitions)
            while True:
                turn = await consumer.getmany(timeout_ms=_WAIT_MS, max_records=_RECORDS)
                for tp, records in turn.items():
                    self._take(tp.partition, records)
                async with self._advanced:
                    self._advanced.notify_all()
                if not self.caught_up.is_set() and await _has_reached(consumer, ends):
                    self.caught_up.set()
                    log.info("%s has been read, so all idempotency keys are known", self._topic)
                await asyncio.sleep(0)
        finally:
            with contextlib.suppress(Exception):
                await consumer.stop()

    def _take(self, partition: int, records: list[ConsumerRecord]) -> None:
        next_offset = records[-1].offset + 1
        self._store.take(partition, filter(None, map(self._read, records)), next_offset)
        self._next[partition] = next_offset

    def _read(self, record: ConsumerRecord) -> Written | None:
        key, why = record.key or b"", "its key is not a digest"
        if len(key) == _DIGEST_BYTES:
            try:
                return Written(key, record.timestamp, decode(record.value))
            except ValueError as error:
                why = str(error)
        passed_over(self._topic, record.partition, record.offset, why)
        return None


async def _has_reached(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    for tp, end in ends.items():
        if await consumer.position(tp) < end:
            return False
    return True


class _Record(NamedTuple):
    key: bytes
    value: bytes
    stored: asyncio.Future[int]


class _Lane:
    """One partition: waiting records, and since when a batch is in flight."""

    def __init__(self) -> None:
        self.waiting, self.since_s = list[_Record](), math.inf


class ReceiptWriter:
    """Writes to one topic; write() never blocks."""

    def __init__(self, tasks: asyncio.TaskGroup, sender: Sender, topic: str, now_ms: Callable[[], int]) -> None:
        """Write with `sender`, which has started, as long as `tasks` run."""
        self._tasks, self._sender, self._topic, self._now_ms = tasks, sender, topic, now_ms
        self._lanes = defaultdict[int, _Lane](_Lane)
        self._loop = asyncio.get_running_loop()

    def down(self, partition: int) -> bool:
        """Return whether a partition does not accept records, or not soon."""
        return self._loop.time() - self._lanes[partition].since_s > PATIENCE_S

    def write(self, partition: int, key: bytes, value: bytes) -> asyncio.Future[int]:
        """Write a record; the future returns its offset, or raises a SendError.

        A record whose future is cancelled before it is sent is not written; a record in flight may still be written.
        """
        lane, stored = self._lanes[partition], self._loop.create_future()
        lane.waiting.append(_Record(key, value, stored))
        if lane.since_s == math.inf:
            lane.since_s = self._loop.time()
            self._tasks.create_task(self._send(partition, lane))
        return stored

    async def _send(self, partition: int, lane: _Lane) -> None:
        """Send batch after batch, until no records are left."""
        submit = partial(self._sender.submit, self._topic, partition)
        while waiting := [one for one in lane.waiting if not one.stored.done()]:
            records, lane.waiting, lane.since_s = waiting[:_MOST], waiting[_MOST:], self._loop.time()
            plain = [(one.key, one.value, NO_HEADERS) for one in records]
            for one, outcome in zip(records, await send_records(plain, self._now_ms, submit), strict=True):
                if one.stored.done():
                    continue
                if isinstance(outcome, Ack):
                    one.stored.set_result(outcome.offset)
                else:
                    one.stored.set_exception(outcome)
        lane.waiting, lane.since_s = [], math.inf
