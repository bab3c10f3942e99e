"""Progress: each partition reports its state every second (records.md#progress)."""

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from app.base.clock import Clock
from app.base.version import VERSION
from app.engine.due.due_loop import DueLoop
from app.engine.ingest.quotas import Quotas
from app.engine.partition.partition import Partition, State
from app.engine.reports.agreement import fingerprint
from app.engine.reports.overdue import GRACE_MS, overdue
from app.engine.reports.reader import DISK, Report, decode_progress
from app.engine.reports.standstill import Standstill  # noqa: TC001 - needed for annotations
from app.engine.steps.plan import PAUSED_MS
from app.kafka import Batch, Sender
from app.settings.settings import Settings
from punctual.contract.destination import named
from tables import NamespaceShare, PartitionStore, keys
from tables.entry import VERSION as VERSION_READ

log = logging.getLogger(__name__)

_EVERY_S = 1.0
#: Maximum size of a repeated report; a larger one was not written by Punctual.
_REPEATED_BYTES = 512 * 1024
#: A record has at most some 20 KiB (app/engine/reports/progress.py), and any sensible topic accepts this much.
_BATCH_BYTES = 64 * 1024
#: Reports that a new partition skips before it repeats the last one: its former owner's last report is read with some
#: delay, and may be newer.
_SILENT = 3

encode = msgspec.json.Encoder().encode


#: Maximum names in a record and their bytes, which is enough for most installations. Names can have 249 characters, and
#: are reported every second: 16 partitions full of long names write 256 KiB/s.
NAMES, BYTES = 100, 8 * 1024
#: Bytes of a number, quotes, a colon and a comma.
_BESIDE = 24


def names_with_largest(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the names with the largest numbers, as many as fit."""
    return _fitting(heapq.nlargest(NAMES, ((name, of) for name, of in numbers.items() if name), key=itemgetter(1)))


def names_with_smallest(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the names with the smallest numbers, as many as fit."""
    return _fitting(heapq.nsmallest(NAMES, ((name, of) for name, of in numbers.items() if name), key=itemgetter(1)))


def _fitting(pairs: list[tuple[str, int]]) -> dict[str, int]:
    fitting: dict[str, int] = {}
    left = BYTES
    for name, number in pairs:
        left -= len(name.encode()) + _BESIDE
        if left < 0:
            break
        fitting[name] = number
    return fitting


class ProgressReporter:
    """Writes the progress records of a worker's partitions, and measures the brokers' clock with them."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        sender: Sender,
        due: DueLoop,
        last: Callable[[int], bytes | None] = lambda _: None,
        quotas: Quotas | None = None,
    ) -> None:
        """Report on the partitions of `due`; `last` returns the value of a partition's last report, if any."""
        self._rates = None if quotas is None else quotas.rates
        self._settings, self._clock, self._sender, self._due, self._last = settings, clock, sender, due, last
        #: The number of reports that each idle partition has skipped.
        self._silent = Counter[int]()
        self._fingerprint = fingerprint(settings)
        #: Inputs and writes of this worker that make no progress, once they are watched.
        self.standstill: Standstill | None = None

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self.report()
            await asyncio.sleep(_EVERY_S)

    async def report(self) -> None:
        """Write one record for each partition with a report, in as many batches as needed."""
        now, jumps = self._clock.now_ms(), self._clock.jumps
        batches: list[Batch] = []
        for key, value in await self._values(now):
            if not batches or not batches[-1].append(now, key, value):
                batches.append(Batch(_BATCH_BYTES))
                batches[-1].append(now, key, value)  # the first record fits whatever its size
        if not batches:
            return
        first, *others = [self._sender.submit(self._settings.topics.progress, 0, batch) for batch in batches]
        if self.standstill is not None:
            self.standstill.reporting_s = asyncio.get_running_loop().time()
        ack = await first
        if self.standstill is not None:
            self.standstill.reporting_s = None
        was_sure = self._clock.may_fire()
        self._clock.confirm(now, jumps, ack.timestamp_ms)
        if self._clock.may_fire() and not was_sure:
            self._due.notify()
        await asyncio.gather(*others)

    async def _values(self, now: int) -> list[tuple[bytes, bytes]]:
        """Return the keys and values of the records."""
        lateness, settings, records = self._due.lateness.histogram(), self._fingerprint, []
        self._silent = Counter({number: of for number, of in self._silent.items() if number in self._due.partitions})
        for partition in list(self._due.partitions.values()):
            if partition.state in (State.LIVE, State.CATCHING_UP):
                self._silent.pop(partition.number, None)
                value = encode(self.record(partition, now, lateness, settings))
                lateness, settings = {}, {}  # a worker's histogram and settings are in one record only
            elif (again := self._repeated(partition)) is not None:
                value = again
            else:
                continue
            records.append((b"%d" % partition.number, value))
            await asyncio.sleep(0)  # a partition with very many destinations takes some ms
        return records

    def _repeated(self, partition: Partition) -> bytes | None:
        """Return a partition's last report with its state while it is restored or stopped: other workers need it."""
        if partition.state not in (State.RESTORING, State.STOPPED):
            return None
        self._silent[partition.number] += 1
        last = self._last(partition.number) if self._silent[partition.number] > _SILENT else None
        if last is None:
            return None
        try:
            value = encode({**msgspec.json.decode(last), "state": partition.state.value, "lateness": {}})
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return None  # newer workers or others wrote it; its known fields have been read
        return value if len(value) <= _REPEATED_BYTES else None

    def own(self, now: int) -> dict[int, Report]:
        """Return this worker's reports as it would write them, also while brokers do not take them."""
        reports = dict[int, Report]()
        for number, partition in self._due.partitions.items():
            if partition.working:
                value = encode(self.record(partition, now, {}, {}))
                reports[number] = Report(decode_progress(b"%d" % number, value), 0, now)
        return reports

    def record(
        self, partition: Partition, now: int, lateness: dict[str, int], settings: dict[str, str]
    ) -> dict[str, Any]:
        """Return the progress record of a partition, with the worker's `lateness` and `settings`."""
        store = partition.store
        oldest = partition.in_flight.oldest(store)
        retrying = len(partition.in_flight.tries)
        fired_to = now if oldest is None else min(now, keys.due_of(oldest) - 1)
        return {
            "partition": partition.number,
            "at": now,
            "fired_to": fired_to,
            "read_to": partition.memory.read_to(now - self._clock.offset_ms),
            "reads": VERSION_READ,
            "rows": store.row_version,
            "positions": {topic: position.offset for topic, position in store.positions.items()},
            **_pending(store),
            **self._of_namespaces(store, partition.number),
            "overdue": overdue(partition, oldest, now - GRACE_MS, self._due.throttle),
            **({"retrying": retrying} if retrying else {}),
            # The due time of a paused series is not a real one.
            "next_due": None if oldest is None or keys.due_of(oldest) == PAUSED_MS else keys.due_of(oldest),
            **_held(partition.in_flight.held_ms()),
            **self._throttled(partition, now),
            **self._standing_still(partition.number, now),
            "lateness": lateness,
            "worker": self._settings.process.url,
            "version": VERSION,
            "settings": settings,
        }

    def _of_namespaces(self, store: PartitionStore, number: int) -> dict[str, Any]:
        """Return pending messages per namespace and sender, and recent requests of namespaces with a quota."""
        if store.shares is None:
            return {}
        held = {sender: len(destinations) for sender, destinations in sorted(store.shares.destinations.items())}
        fields: dict[str, Any] = {"destinations": names_with_largest(held)}
        if self._settings.topics.namespaces:
            known = sorted(store.shares.known.items())
            fields["namespaces"] = {name: _share(of) for name, of in known}
        requests = {} if self._rates is None else self._rates.recent(number)
        return {**fields, **({"requests": requests} if requests else {})}

    def _standing_still(self, number: int, now: int) -> dict[str, Any]:
        """Return since when requests have waited unread, if long, and whether the full disk holds them back."""
        if self.standstill is None:
            return {}
        unread_ms = round(self.standstill.unread_s(number) * 1_000)
        unread = {"unread": now - unread_ms} if unread_ms > GRACE_MS else {}
        return {**unread, **({"held_back": DISK} if self.standstill.held_back else {})}

    def _throttled(self, partition: Partition, now: int) -> dict[str, Any]:
        """Return the oldest due times that wait for paused destinations, and for rate-limited ones."""
        throttle, throttled = self._due.throttle, dict[str, dict[str, int]]()
        for to, row in partition.in_flight.aside.items():
            due_ms = keys.due_of(row)
            if throttle.paused(to) is not None:
                throttled.setdefault("paused", {})[named(*to)] = due_ms
            elif throttle.limits(to, now - due_ms):
                throttled.setdefault("paced", {})[named(*to)] = due_ms
        return {kind: names_with_smallest(since) for kind, since in throttled.items()}


def _share(of: NamespaceShare) -> dict[str, int]:
    remembered = {"remembered": of.remembered} if of.remembered else {}
    return {"messages": of.messages, "bytes": of.bytes, **remembered}


def _pending(store: PartitionStore) -> dict[str, Any]:
    """Return pending messages for the largest destinations, and the sum of the rest, without callbacks ('')."""
    counts = store.counts.destinations
    named = names_with_largest(counts)
    others = len(counts) - ("" in counts) - len(named)
    if not others:
        return {"pending": named}
    messages = store.counts.total - counts.get("", 0) - sum(named.values())
    return {"pending": named, "pending_rest": {"destinations": others, "messages": messages}}


def _held(held: dict[str, int]) -> dict[str, Any]:
    """Return since when each destination has accepted no message: the longest-held ones, and the number of others."""
    named = names_with_smallest(held)
    others = sum(1 for name in held if name) - len(named)
    return {"held": named, "held_rest": {"destinations": others}} if others else {"held": named}
