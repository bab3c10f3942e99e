"""The fixture `delayed`: a simulated installation, for tests with and without an event loop."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

from app.base.clock import Clock
from app.dev.testing.installation import Inside, Installation, NoInput
from app.dev.testing.records import Pending, Post, Record, time_of
from app.dev.testing.simulated_time import SimulatedClock, SimulatedLoop
from app.engine.steps.plan import PAUSED_MS
from app.settings.settings import Settings
from punctual.contract.home import key_partition
from tables import keys


def taken(_: Post) -> int:
    """Answer a post with 200, as a receiver that accepts everything."""
    return 200


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the simulated installation.

    `settings`: the worker's environment variables (docs/reference/settings.md); by default, every topic is an allowed
    destination, and there is one partition.
    `topics`: destination topics and their numbers of partitions; without it every topic exists, with one.
    `start`: the first time on the clock; by default the present.
    `respond`: returns the HTTP status with which a post is answered.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] | None = None
    start: datetime | None = None
    respond: Callable[[Post], int] = taken


T = TypeVar("T")
Said = str | bytes | None

_THREAD = "punctual-simulation"
_DEFAULTS = {"DELAY_DESTINATIONS": "*", "DELAY_PARTITIONS": "1"}
#: Brokers in memory have no transactions, and there is no pipeline for a cold tier.
_FIXED = {"DELAY_GUARANTEE": "at_least_once", "DELAY_HORIZON": "0"}


class Arrived(list[Record]):
    """Delivered records; awaiting the list lets other tasks of the test run, and returns it."""

    def __await__(self) -> Generator[Any, None, Self]:
        """Let other tasks run once."""
        yield from asyncio.sleep(0).__await__()
        return self


class Delayed:
    """A running Punctual whose clock stands still until `advance`. Its methods work in any thread, and at once."""

    def __init__(self, options: Options) -> None:
        """Start it with `options`."""
        self._settings = Settings.from_env({**_DEFAULTS, **options.settings, **_FIXED})
        start_ms = Clock.wall_ms() if options.start is None else _epoch_ms(options.start)
        self._clock = SimulatedClock(start_ms)
        self._directory = tempfile.TemporaryDirectory(prefix="punctual-", ignore_cleanup_errors=True)
        # It has its own thread, because the test may run on an event loop, and a thread can run only one.
        self._thread = ThreadPoolExecutor(1, _THREAD)
        self._loop = SimulatedLoop()

        async def start() -> Installation:
            path = Path(self._directory.name)
            return Installation(self._settings, options.topics, self._clock, options.respond, path)

        self._installation = self._run(start())

    def close(self) -> None:
        """Stop the simulated installation."""
        try:
            self._run(self._installation.stop())
        finally:
            self._thread.submit(self._loop.close).result()
            self._thread.shutdown()
            self._directory.cleanup()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if threading.current_thread().name.startswith(_THREAD):
            work.close()
            raise Inside
        return self._thread.submit(self._loop.run_until_complete, work).result()

    # time ------------------------------------------------------------------------------------------------------------
    @property
    def now(self) -> datetime:
        """The simulated time, in UTC."""
        return time_of(self._clock.wall_ms())

    def advance(self, delta: timedelta | None = None, **span: float) -> Arrived:
        """Let time pass, by a timedelta or its arguments (`hours=2`); return the deliveries to topics in that time.

        The result may be awaited; all work is already done.
        """
        return self.advance_to(self.now + (timedelta(**span) if delta is None else delta))

    def advance_to(self, moment: datetime) -> Arrived:
        """Let time pass until `moment`; return the deliveries to topics in that time.

        Raises ValueError if that is in the past.
        """
        until_ms = _epoch_ms(moment)
        if until_ms < self._clock.wall_ms():
            raise ValueError(
                f"it is {self.now.isoformat()}, {moment.isoformat()} is in the past. Time only moves forward."
            )
        before = len(self._installation.brokers.written)
        self._run(self._installation.advance(until_ms))
        return Arrived(filter(self._is_delivery, self._installation.brokers.written[before:]))

    # input -----------------------------------------------------------------------------------------------------------
    def produce(
        self,
        headers: Mapping[str, Said] | Iterable[tuple[str, Said]],
        value: Said = None,
        *,
        key: Said = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Record:
        """Write a record as any producer could, to the requests topic or to another `topic`, and return it.

        The request is processed, and a message that is due at once delivered, before this returns. Raises NoInput if
        Punctual does not read the topic or partition.
        """
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        raw, to = tuple((name, _bytes(content)) for name, content in pairs), topic or self._settings.topics.requests
        place = self._place(to, _bytes(key)) if partition is None else partition
        if place >= self.partitions(to):
            raise NoInput(to, place)

        async def write() -> Record:
            record = self._installation.brokers.append(to, place, _bytes(key), _bytes(value), raw)
            await self._installation.advance(self._clock.wall_ms())
            return record

        return self._run(write())

    def _place(self, topic: str, key: bytes | None) -> int:
        return 0 if key is None else key_partition(key, max(1, self.partitions(topic)))

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic that Punctual reads, 0 for other topics."""
        read = topic in self._settings.topics.inputs or topic == self._settings.topics.controls
        return self._installation.brokers.partitions(topic) if read else 0

    # results ---------------------------------------------------------------------------------------------------------
    def delivered(self, topic: str | None = None) -> list[Record]:
        """Return the delivered records in their order, of one topic or of all."""
        written = self._installation.brokers.written
        return [one for one in written if self._is_delivery(one) and topic in (None, one.topic)]

    def dead_letters(self) -> list[Record]:
        """Return the refused requests and undeliverable messages; headers say why (docs/reference/records.md)."""
        return self._of(self._settings.topics.dead_letters)

    def events(self) -> list[dict[str, Any]]:
        """Return the events of all messages (docs/reference/records.md)."""
        return [json.loads(record.value or b"") for record in self._of(self._settings.topics.events_topic)]

    def posts(self) -> list[Post]:
        """Return all posts to URLs, including failure callbacks."""
        return list(self._installation.web.posts)

    def pending(self) -> list[Pending]:
        """Return the pending messages, the next one first."""

        async def look() -> list[Pending]:
            return sorted(self._pending(), key=lambda one: (one.due is None, one.due, one.id))

        return self._run(look())

    def _pending(self) -> Iterable[Pending]:
        for store in self._installation.stores.values():
            for row, entry in store.rows():
                if entry.url is None:
                    due_ms = keys.due_of(row)
                    due = None if due_ms >= PAUSED_MS else time_of(due_ms)
                    yield Pending(entry.id, entry.to, due, entry.key, entry.value, tuple(entry.headers))

    def _of(self, topic: str) -> list[Record]:
        return [record for record in self._installation.brokers.written if record.topic == topic]

    def _is_delivery(self, record: Record) -> bool:
        return record.cluster is not None or record.topic not in self._settings.topics.internal_topics


def _bytes(value: Said) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _epoch_ms(moment: datetime) -> int:
    """Return a moment in epoch milliseconds.

    Raises ValueError if it has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone. Write datetime(…, tzinfo=UTC).")
    return round(moment.timestamp() * 1000)
