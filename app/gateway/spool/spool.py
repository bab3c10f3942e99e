"""Records that Kafka has not stored: written to disk in groups before they are accepted; limited by bytes and age."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from app.base.clock import Clock
from app.base.process.disk_room import FREE_BYTES, DiskRoom
from app.base.process.fatal import telling
from app.gateway.spool.spool_store import Place, Shelf, SpooledRecord, SpoolStore, encoded, key_of
from app.gateway.spool.submission import SpoolFull, Submission
from app.settings.gateway import GATEWAY_DEDUPE_MS, GatewaySettings
from app.settings.quotas import senders
from app.settings.topics import TopicSettings

log = logging.getLogger(__name__)
T = TypeVar("T")

_NOTHING: Final = Shelf(0, 0, 0)
#: The maximum records and bytes that are read at a time: a batch.
_READ_COUNT, _READ_BYTES = 1_000, 400 * 1024
_SHRINK_BYTES: Final = 32 << 20
_RETRY_AFTER_S: Final = 5
#: A spool whose oldest record is older accepts no more. It is half of the deduplication window, so that a record that
#: reached Kafka twice, before an outage and after it, is still recognised.
_MOST_AGE_MS: Final = GATEWAY_DEDUPE_MS // 2


class _Write(NamedTuple):
    """Records that wait to be written together, and the future of their caller."""

    records: list[tuple[Place, int, bytes]]
    size: int
    sizes: Counter[str]
    written: asyncio.Future[None]


class Spool:
    """Records by place, in order of arrival; it belongs to one event loop, and has one thread for the disk."""

    def __init__(
        self,
        topics: TopicSettings,
        gateway: GatewaySettings,
        gateway_path: Path,
        crash: Callable[[BaseException], object],
    ) -> None:
        """Open the spool in the gateway's directory; `crash` is called with unexpected errors.

        Raises SpoolTaken or SpoolUnusable.
        """
        self._crash = crash
        self._path = gateway_path
        self._most_bytes = gateway.spool_bytes
        self._store = SpoolStore(self._path)
        self._shelves = self._store.shelves()
        self._namespaces = topics.namespaces
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
                whose = sender or "messages without a namespace"
                sentence = (
                    f"the share of {whose} in the spool of {self._most_bytes} bytes is full (DELAY_GATEWAY_SPOOL_BYTES)"
                )
                raise SpoolFull(sentence, _RETRY_AFTER_S)

    def _sender(self, submission: Submission) -> str:
        """Return the sender of a record: a namespace, or else an input."""
        return self._namespaces.of_id(submission.id) if self._namespaces else submission.topic

    def check(self, size: int = 1) -> None:
        """Raise SpoolFull if records of `size` bytes cannot be accepted now."""
        if self.bytes + size > self._most_bytes:
            raise SpoolFull(
                f"the spool of {self._most_bytes} bytes is full (DELAY_GATEWAY_SPOOL_BYTES)", _RETRY_AFTER_S
            )
        if self.age_s * 1000 > _MOST_AGE_MS:
            raise SpoolFull("the oldest record in the spool is too old", _RETRY_AFTER_S)
        if not self._room.enough():
            raise SpoolFull(f"less than {FREE_BYTES >> 20} MiB of disk are free", _RETRY_AFTER_S)

    def add(self, place: Place, submissions: Sequence[Submission]) -> tuple[list[SpooledRecord], asyncio.Future[None]]:
        """Append records to those of their place, and return them as spooled records.

        They are accepted when the future is done, and not if it raises SpoolFull. Raises SpoolFull if there is no room
        for them.
        """
        held, records = [], []
        for submission in submissions:
            self._number = max(self._number + 1, Clock.wall_ms() * 1000)
            value = encoded(submission)
            records.append((place, self._number, value))
            held.append(SpooledRecord(self._number, len(key_of(place, 0)) + len(value), submission))
        size, sizes = sum(one.size for one in held), self._sizes(held)
        write = _Write(records, size, sizes, asyncio.get_running_loop().create_future())
        self.check(write.size)
        self._count(place, len(records), write.size, records[0][1])
        self._share(write.sizes, 1)
        self._gathered.append(write)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())
            self._writing.add_done_callback(telling(self._crash))
        return held, write.written

    async def _write(self) -> None:
        """Write the waiting records in groups, until none are left."""
        while self._gathered:
            group, self._gathered = self._gathered, []
            try:
                records = [record for write in group for record in write.records]
                await self._run(partial(self._store.add, records))
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
            place = write.records[0][0]
            self._count(place, -len(write.records), -write.size, None)
            self._share(write.sizes, -1)
            if not write.written.done():
                write.written.set_exception(SpoolFull(f"the disk cannot store it: {error}", _RETRY_AFTER_S))

    # out -------------------------------------------------------------------------------------------------------------
    async def read(self, place: Place) -> list[SpooledRecord]:
        """Return the first records of a place that are on disk; none while they are being written.

        Raises SpoolUnusable.
        """
        shelf = self._shelves.get(place, _NOTHING)
        return await self._run(partial(self._store.read, place, shelf.first, _READ_COUNT, _READ_BYTES))

    async def remove(self, place: Place, held: Sequence[SpooledRecord]) -> None:
        """Remove the first records of a place, because they are in Kafka. Raises SpoolUnusable."""
        first = await self._run(partial(self._store.remove, place, [one.number for one in held]))
        self._count(place, -len(held), -sum(one.size for one in held), first or held[-1].number + 1)
        self._share(self._sizes(held), -1)
        self._removed += sum(one.size for one in held)
        if not self._shelves and self._removed > _SHRINK_BYTES:
            self._removed = 0
            await self._run(self._store.shrink)  # on the disk's one thread, before later records

    def _sizes(self, held: Iterable[SpooledRecord]) -> Counter[str]:
        """Return the bytes of records by sender; empty if bytes are not counted by sender."""
        sizes = Counter[str]()
        for one in held if self._of is not None else ():
            sizes[self._sender(one.submission)] += one.size
        return sizes

    def _share(self, sizes: Mapping[str, int], times: int) -> None:
        """Add bytes by sender, or subtract them if `times` is -1."""
        if self._of is None:
            return
        for sender, size in sizes.items():
            self._of[sender] += times * size
            if self._of[sender] <= 0:
                del self._of[sender]

    def _count(self, place: Place, records: int, size: int, first: int | None) -> None:
        before = self._shelves.get(place, _NOTHING)
        after = Shelf(before.records + records, before.size + size, first if first and records < 0 else before.first)
        if not before.records:
            after = after._replace(first=first or 0)
        self.bytes += size
        if after.records:
            self._shelves[place] = after
        else:
            self._shelves.pop(place, None)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)

    async def close(self) -> None:
        """Write the waiting records, and free the directory for another process; a second call has no effect."""
        if self._closed:
            return
        self._closed = True
        while self._writing is not None:
            await asyncio.wait({self._writing})
        await self._run(self._store.close)
        self._disk.shutdown()
