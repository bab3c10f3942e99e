"""Keeps the latest progress report of every partition, whichever worker wrote it."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord

from app.base.process.skipped_records import bounded, passed_over

logger = logging.getLogger(__name__)

#: Partitions report every second: an older report shows that no worker has its partition.
STALE_AFTER_MS: Final = 10_000

RETRY_SECONDS: Final = 1.0

# The contract gives the topic one partition, so its last report is the newest one, whichever worker wrote it.
ONLY_PARTITION: Final = 0

# A broker then answers once a second instead of for each record; 16 partitions write 16 records a second.
FETCH_WAIT_MS: Final = 1000
FETCH_MIN_BYTES: Final = 1 << 20

# Absorbing 500 records takes well under 2 ms, the maximum for which the worker's event loop may be blocked.
RECORDS_PER_TURN: Final = 500

#: Reason why a worker accepts no requests: too little free disk space.
DISK: Final = "disk"

# Sums of such counts still fit into the integers of JSON encoders.
LARGEST: Final = (1 << 61) - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class MalformedProgressError(ValueError):
    """The record is not a progress report; compare it with records.md#progress."""


class OtherDestinations(msgspec.Struct, frozen=True):
    """The destinations that a report does not name, and their pending messages."""

    destinations: Count = 0
    messages: Count = 0


class HeldRest(msgspec.Struct, frozen=True):
    """The destinations that accept no messages and that a report does not name."""

    destinations: Count = 0


class NamespaceHoldings(msgspec.Struct, frozen=True):
    """A namespace's part of a partition: messages, bytes of keys, values and headers, and remembered ids."""

    messages: Count = 0
    bytes: Count = 0
    remembered: Count = 0


class ProgressRecord(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        "at_ms": "at",
        "fired_to_ms": "fired_to",
        "next_due_ms": "next_due",
        "held_ms": "held",
        "paused_ms": "paused",
        "paced_ms": "paced",
        "held_by": "destinations",
        "unread_ms": "unread",
    },
):
    """The state of one partition at one moment: the value of a record on the progress topic.

    Times are epoch milliseconds. Unknown fields are ignored, so that newer workers can add some.

    - `lateness` counts deliveries of the last minute by the upper bound of their lateness in ms ("5", ..., "inf").
    - `overdue` counts messages due for over a second, `retrying` messages that wait for a retry over HTTP.
    - `settings` are hashes of the settings that must be the same on all workers.
    - `pending` and `held_ms` name as many destinations as fit; `pending_rest` and `held_rest` sum up the others.
    - `paused_ms` and `paced_ms` have the oldest due time that waits for each paused or rate-limited destination.
    - With a `state` ("restoring", "stopped"), a report repeats the partition's last one, of `at_ms`.
    - `namespaces` are those with pending messages; `requests` counts the recent requests of those with a rate limit.
    - `held_by` counts, if there are several senders, the destinations of each.
    - `unread_ms` is the time since which requests are unread, `held_back` the reason why none are accepted.
    """

    partition: Count
    at_ms: Count
    fired_to_ms: Count
    positions: dict[str, Count]
    pending: dict[str, Count]
    overdue: Count
    worker: str
    version: str
    next_due_ms: Count | None = None
    held_ms: dict[str, Count] = msgspec.field(default_factory=dict)
    paused_ms: dict[str, Count] = msgspec.field(default_factory=dict)
    paced_ms: dict[str, Count] = msgspec.field(default_factory=dict)
    lateness: dict[str, Count] = msgspec.field(default_factory=dict)
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    pending_rest: OtherDestinations = OtherDestinations()
    held_rest: HeldRest = HeldRest()
    state: str | None = None
    read_to: dict[str, int] = msgspec.field(default_factory=dict)
    reads: int = 1
    rows: int = 1
    retrying: Count = 0
    namespaces: dict[str, NamespaceHoldings] = msgspec.field(default_factory=dict)
    requests: dict[str, dict[str, Count]] = msgspec.field(default_factory=dict)
    held_by: dict[str, Count] = msgspec.field(default_factory=dict)
    unread_ms: Count | None = None
    held_back: str | None = None

    @property
    def total(self) -> int:
        """The number of pending messages."""
        return sum(self.pending.values()) + self.pending_rest.messages

    @property
    def destinations(self) -> int:
        """The number of destinations with pending messages."""
        return len(self.pending) + self.pending_rest.destinations


class Report(msgspec.Struct, frozen=True):
    """A partition's latest progress, its offset in the topic, and the broker's time of writing (epoch ms).

    `value` is the record's value, which may have more fields.
    """

    progress: ProgressRecord
    offset: int
    appended_ms: int
    value: bytes = b""


_decoder = msgspec.json.Decoder(ProgressRecord)


def decode_progress(key: bytes | None, value: bytes) -> ProgressRecord:
    """Return the progress in a record, or raise `MalformedProgressError` with the reason."""
    try:
        progress = _decoder.decode(bounded(value))
        bounds = [float(bound) for bound in progress.lateness]
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise MalformedProgressError(str(error)) from error
    if progress.total > LARGEST:
        raise MalformedProgressError(f"{progress.total} messages cannot be pending")
    if not all(bound >= 0 for bound in bounds):
        message = f"lateness bounds must be milliseconds or inf, not {sorted(progress.lateness)}"
        raise MalformedProgressError(message)
    if key != b"%d" % progress.partition:
        message = f"the key is {key!r} and the partition is {progress.partition}"
        raise MalformedProgressError(message)
    return progress


class ProgressReader:
    """Follows the progress topic from its beginning, through outages, until stopped.

    It belongs to no consumer group, never creates the topic, and waits for it if it does not exist yet. `options` go to
    `AIOKafkaConsumer` (security settings, client id). With `partitions`, reports of partitions from that number on are
    malformed. `start` never fails: while Kafka is down, the last reports stay, and their age shows it. `caught_up` is
    set once all records from before the start have been read.
    """

    def __init__(self, bootstrap: str, topic: str, *, partitions: int | None = None, **options: Any) -> None:
        self.caught_up = asyncio.Event()
        self.malformed = 0
        self._topic = topic
        self._partitions = partitions
        self._options = {
            "bootstrap_servers": bootstrap,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": FETCH_WAIT_MS,
            "fetch_min_bytes": FETCH_MIN_BYTES,
        } | options
        self._reports: dict[int, Report] = {}
        self._resume_at: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    @property
    def reports(self) -> Mapping[int, Report]:
        """The latest report of each partition that ever reported: a live, read-only view."""
        return MappingProxyType(self._reports)

    def last(self, partition: int) -> bytes | None:
        """Return the value of a partition's latest report, None if there is none."""
        report = self._reports.get(partition)
        return None if report is None else report.value

    async def start(self) -> None:
        """Begin reading in the background; further calls have no effect."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"progress reader of {self._topic}")

    async def stop(self) -> None:
        """Stop reading and close the connection; the reports stay. Further calls have no effect."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def absorb(self, key: bytes | None, value: bytes | None, offset: int, appended_ms: int) -> bool:
        """Process one record of the topic; a record without a value removes its partition's report.

        Return False, and count it in `malformed`, if it is not a progress report.
        """
        try:
            if value is None:
                self._reports.pop(int(key or b""), None)
            else:
                progress = decode_progress(key, value)
                if self._partitions is not None and progress.partition >= self._partitions:
                    raise MalformedProgressError(f"there is no partition {progress.partition}")
                self._reports[progress.partition] = Report(progress, offset, appended_ms, value)
        except ValueError as error:
            self.malformed += 1
            passed_over(self._topic, ONLY_PARTITION, offset, error)
            return False
        return True

    def _absorb_newest(self, records: Iterable[ConsumerRecord]) -> None:
        # Backwards, so that in an hour of uncompacted reports only the last one of each partition is decoded.
        done: set[bytes | None] = set()
        for record in reversed(list(records)):
            if record.key not in done and self.absorb(record.key, record.value, record.offset, record.timestamp):
                done.add(record.key)

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except Exception as error:  # noqa: BLE001 a view must survive any error of its client
                if not self._failing:
                    logger.warning("cannot read %s, retrying: %r", self._topic, error)
                self._failing = True
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        consumer = AIOKafkaConsumer(**self._options)
        try:
            await consumer.start()
            partition = await self._assign(consumer)
            end = (await consumer.end_offsets([partition]))[partition]
            while True:
                turn = await consumer.getmany(timeout_ms=FETCH_WAIT_MS, max_records=RECORDS_PER_TURN)
                self._failing = False
                if records := turn.get(partition):
                    self._absorb_newest(records)
                    self._resume_at = records[-1].offset + 1
                if not self.caught_up.is_set() and await consumer.position(partition) >= end:
                    self.caught_up.set()
        finally:
            await consumer.stop()

    async def _assign(self, consumer: AIOKafkaConsumer) -> TopicPartition:
        # Listing all topics is the only request that cannot make a broker create the requested topic.
        waiting = False
        while self._topic not in await consumer.topics():
            if not waiting:
                logger.info("%s does not exist yet, waiting for it", self._topic)
            waiting = True
            await asyncio.sleep(RETRY_SECONDS)
        partition = TopicPartition(self._topic, ONLY_PARTITION)
        consumer.assign([partition])
        if self._resume_at is not None:
            consumer.seek(partition, self._resume_at)
        return partition
