"""Records that Kafka has not stored: written to disk in groups before they are accepted; limited by bytes and age."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from app.base.clock import Clock
from app.base.process.disk_room import FREE_BYTES, DiskRoom
from app.base.process.fatal import telling
from app.gateway.spool.errors import SpoolFull
from app.gateway.spool.spool_store import Place, Shelf, SpooledRecord, SpoolStore, encoded, key_of
from app.serve.messages.acceptance import Submission
from app.settings.gateway import GATEWAY_DEDUPE_MS, GatewaySettings
from app.settings.quotas import senders
from app.settings.topics import TopicSettings

if TYPE_CHECKING:
    from collections import Counter

log = logging.getLogger(__name__)
T = TypeVar("T")

_NOTHING: Final = Shelf(0, 0, 0)
#: The maximum records and bytes that are read at a time: a batch.
_READ_COUNT, _READ_BYTES = 1_000, 400 * 1024
_SHRINK_BYTES: Final = 32 << 20
#: A spool whose oldest record is older accepts no more. It is half of the deduplication window, so that a record that
#: reached Kafka twice, before an outage and after it, is still recognised.
_MOST_AGE_MS: Final = GATEWAY_DEDUPE_MS // 2


class _Write(NamedTuple):
    """Records of a place that wait to be written, also as they are stored, and the future of their caller."""

    place: Place
    records: list[SpooledRecord]
    rows: list[tuple[Place, int, bytes]]
    written: asyncio.Future[None]


class Spool:
    """Records by place, in order of arrival; it belongs to one event loop, and has one thread for the disk."""

    def __init__(
        self, topics: TopicSettings, gateway: GatewaySettings, path: Path, crash: Callable[[BaseException], object]
    ) -> None:
        """Open the spool in the gateway's directory. Raises SpoolTaken or SpoolUnusable."""
        self._crash, self._path, self._namespaces = crash, path, topics.namespaces
        self._most_bytes = gateway.spool_bytes
        self._store = SpoolStore(self._path)
        self._shelves = self._store.shelves()
        #: Bytes by sender, None if there is only one sender.
        self._of: Counter[str] | None = None
        if len(senders(topics.namespaces, topics.inputs)) > 1:
            self._of = self._store.sizes(self._sender)
        self.bytes = sum(shelf.size for shelf in self._shelves.values())
        self._number = self._store.last
        self._removed, self._closed = 0, False
        self._gathered: list[_Write] = []
        self._writing: asyncio.Task[None] | None = None
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._room = DiskRoom(self._path)

    # content ---------------------------------------------------------------------------------------------------------
    def places(self) -> list[Place]:
        """Return the places that have records."""
        return list(self._shelves)

    def holds(self, place: Place) -> int:
        """Return the number of a place's records, including records that are being written."""
        return self._shelves.get(place, _NOTHING).records

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(shelf.records for shelf in self._shelves.values())

    @property
    def age_s(self) -> float:
        """The age of the oldest record in seconds, 0 without one."""
        first = min((shelf.first for shelf in self._shelves.values()), default=None)
        return 0.0 if first is None else max(0.0, Clock.wall_ms() / 1000 - first / 1_000_000)

    # in --------------------------------------------------------------------------------------------------------------
    def check_share(self, batch: Iterable[Submission]) -> None:
        """Raise SpoolFull if a sender in `batch` uses as much of the spool as is free."""
        if self._of is None:
            return
        for sender in {self._sender(one) for one in batch}:
            if self._of[sender] >= self._most_bytes - self.bytes:
                share = f"the share of {sender or 'messages without a namespace'} in the spool"
                raise SpoolFull(f"{share} of {self._most_bytes} bytes is full (DELAY_GATEWAY_SPOOL_BYTES)")

    def _sender(self, submission: Submission) -> str:
        """Return the sender of a record: a namespace, or else an input."""
        return self._namespaces.of_id(submission.id) if self._namespaces else submission.topic

    def check(self, size: int = 1) -> None:
        """Raise SpoolFull if records of `size` bytes cannot be accepted now."""
        if self.bytes + size > self._most_bytes:
            raise SpoolFull(f"the spool of {self._most_bytes} bytes is full (DELAY_GATEWAY_SPOOL_BYTES)")
        if self.age_s * 1000 > _MOST_AGE_MS:
            raise SpoolFull("the oldest record in the spool is too old")
        if not self._room.enough():
            raise SpoolFull(f"less than {FREE_BYTES >> 20} MiB of disk are free")

    def add(self, place: Place, submissions: Sequence[Submission]) -> tuple[list[SpooledRecord], asyncio.Future[None]]:
        """Append records to those of their place, and return them as spooled records.

        They are accepted when the future is done, and not if it raises SpoolFull. Raises SpoolFull if there is no room
        for them.
        """
        records, rows = [], []
        for submission in submissions:
            self._number = max(self._number + 1, Clock.wall_ms() * 1000)
            value = encoded(submission)
            rows.append((place, self._number, value))
            records.append(SpooledRecord(self._number, len(key_of(place, 0)) + len(value), submission))
        self.check(_size(records))
        self._count(place, records, 1, records[0].number)
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._gathered.append(_Write(place, records, rows, written))
        if self._writing is None:
            self._writing = loop.create_task(self._write())
            self._writing.add_done_callback(telling(self._crash))
        return records, written

    async def _write(self) -> None:
        while self._gathered:
            group, self._gathered = self._gathered, []
            try:
                rows = [row for write in group for row in write.rows]
                await self._run(self._store.add, rows)
            except OSError as error:
                self._fail(group, error)
                continue
            for write in group:
                if not write.written.done():
                    write.written.set_result(None)
        self._writing = None

    def _fail(self, group: list[_Write], error: OSError) -> None:
        """Refuse a group that could not be written; the next group tries the disk again."""
        log.error(
            "the spool in %s cannot be written: %s. It accepts no records until it can be written.", self._path, error
        )
        self._room.exhaust()
        for write in group:
            self._count(write.place, write.records, -1)
            if not write.written.done():
                write.written.set_exception(SpoolFull(f"the disk cannot store it: {error}"))

    # out -------------------------------------------------------------------------------------------------------------
    async def read(self, place: Place) -> list[SpooledRecord]:
        """Return the first records of a place on disk; none while they are being written. Raises SpoolUnusable."""
        shelf = self._shelves.get(place, _NOTHING)
        return await self._run(self._store.read, place, shelf.first, _READ_COUNT, _READ_BYTES)

    async def remove(self, place: Place, records: Sequence[SpooledRecord]) -> None:
        """Remove the first records of a place, because they are in Kafka. Raises SpoolUnusable."""
        first = await self._run(self._store.remove, place, [one.number for one in records])
        self._count(place, records, -1, first or records[-1].number + 1)
        self._removed += _size(records)
        if not self._shelves and self._removed > _SHRINK_BYTES:
            self._removed = 0
            await self._run(self._store.shrink)  # on the disk's one thread, before later records

    def _count(self, place: Place, records: Sequence[SpooledRecord], sign: int, first: int | None = None) -> None:
        """Add records to the counts of a place and their senders, or subtract them if `sign` is -1.

        `first` is the number of the first record that is added, or is left.
        """
        size, before = sign * _size(records), self._shelves.get(place)
        self.bytes += size
        if before is None:
            before = Shelf(0, 0, first or 0)
        number = first if first is not None and sign < 0 else before.first
        after = Shelf(before.records + sign * len(records), before.size + size, number)
        if after.records:
            self._shelves[place] = after
        else:
            self._shelves.pop(place, None)
        if self._of is not None:
            for one in records:
                self._of[self._sender(one.submission)] += sign * one.size
            self._of = +self._of  # senders without records are left out

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work, *arguments)

    async def close(self) -> None:
        """Write the waiting records, and free the directory for another process; a second call has no effect."""
        if self._closed:
            return
        self._closed = True
        while self._writing is not None:
            await asyncio.wait({self._writing})
        await self._run(self._store.close)
        self._disk.shutdown()


def _size(records: Iterable[SpooledRecord]) -> int:
    return sum(one.size for one in records)
