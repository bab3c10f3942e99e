"""Progress: what each partition says every second, for everyone to read (contract section 6)."""

import asyncio
import logging
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from app.agreement import fingerprint
from app.caller import CALLBACK
from app.clock import Clock
from app.due import DueLoop
from app.kafka import Batch, Sender
from app.naming import named
from app.partition import Partition, State
from app.settings import Settings
from tables import keys
from tables.entry import VERSION as VERSION_READ

log = logging.getLogger(__name__)

_EVERY_S = 1.0
#: A message counts as overdue a second after its due time: what is being sent is not.
_GRACE_MS = 1_000
_COUNTED = 5_000

try:
    VERSION = version("punctual")
except PackageNotFoundError:  # run from a tree that is not installed
    VERSION = "0"

encode = msgspec.json.Encoder().encode


class Progress:
    """Writes the progress records of a worker's partitions, and measures the brokers' clock by them."""

    def __init__(self, settings: Settings, clock: Clock, sender: Sender, due: DueLoop) -> None:
        """Report on the partitions of `due`."""
        self._settings, self._clock, self._sender, self._due = settings, clock, sender, due
        self._told = fingerprint(settings)

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self.report()
            await asyncio.sleep(_EVERY_S)

    async def report(self) -> None:
        """Write one record for each working partition, all in one batch."""
        lateness = self._due.lateness.histogram()
        now, jumps = self._clock.now_ms(), self._clock.jumps
        batch = Batch()
        for partition in list(self._due.partitions.values()):
            if partition.state in (State.LIVE, State.CATCHING_UP):
                value = encode(self.record(partition, now, lateness))
                batch.append(now, str(partition.number).encode(), value)
                lateness = {}  # a worker's histogram is told once
        if not batch.count:
            return
        ack = await self._sender.submit(self._settings.progress, 0, batch)
        was_sure = self._clock.may_fire()
        self._clock.confirm(now, jumps, ack.timestamp_ms)
        if self._clock.may_fire() and not was_sure:
            self._due.notify()

    def record(self, partition: Partition, now: int, lateness: dict[str, int]) -> dict[str, Any]:
        """Give a partition's record."""
        store, oldest = partition.store, partition.oldest()
        fired_to = now if oldest is None else min(now, keys.due_of(oldest) - 1)
        held: dict[str, int] = {}
        for (cluster, topic, number), row in partition.held.items():
            name = named(None if number == CALLBACK else cluster, topic)
            held[name] = min(keys.due_of(row), held.get(name, 1 << 62))
        return {
            "partition": partition.number,
            "at": now,
            "fired_to": fired_to,
            "read_to": partition.memory.read_to(now - self._clock.offset_ms),
            "reads": VERSION_READ,
            "rows": store.row_version,
            "positions": {topic: position.offset for topic, position in store.positions.items()},
            "pending": {to: count for to, count in store.counts.destinations.items() if to},  # '' are callbacks
            "overdue": overdue(partition, oldest, now - _GRACE_MS),
            "next_due": None if oldest is None else keys.due_of(oldest),
            "held": held,
            "lateness": lateness,
            "worker": self._settings.url,
            "version": VERSION,
            # A worker's settings are told once, as its lateness is.
            "settings": self._told if partition.number == min(self._due.partitions, default=-1) else {},
        }


def overdue(partition: Partition, oldest: bytes | None, before_ms: int) -> int:
    """Count rows due by `before_ms`: whole hours from the counters, the present one by looking, up to a bound."""
    if oldest is None or keys.due_of(oldest) > before_ms:
        return 0
    hour = before_ms // keys.BUCKET_MS
    whole = sum(count for number, count in partition.store.counts.hours.items() if number < hour)
    return whole + partition.store.count(hour * keys.BUCKET_MS, before_ms, _COUNTED)
