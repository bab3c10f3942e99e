"""A partition of the tree that is on the path, as its worker puts it together, without Kafka.

All that may differ between commits is here: everything else sees `Assembly` alone. Constructors get the parts that
their parameters name.
"""

import asyncio
import contextlib
import importlib
import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from aiokafka.consumer import fetcher
from aiokafka.structs import TopicPartition

from tables import PartitionStore

T = TypeVar("T")

_NUMBER, _DESTINATION_PARTITIONS = 0, 4
_MIB = 1 << 20
_ANY_NUMBER = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_LATER_MS = 24 * 3_600_000

#: A broker's batch: the topic of its partition 0, the first offset, and the bytes.
Fetch = tuple[str, int, bytes]

#: Set, what ends leaves a trace, as in the first seconds after a request, and while some partition lags behind.
REMEMBER = "HOT_PATH_REMEMBER"


def _first_existing(*places: str) -> Any:
    """Return the first place (`module:name`, newest first) that exists in the tree on the path.

    Raises ImportError if it has none.
    """
    for place in places:
        module, _, name = place.partition(":")
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), name) if name else importlib.import_module(module)
    msg = f"this tree has none of {', '.join(places)}: have benchmarks/hot_path/assembly.py find it."
    raise ImportError(msg)


Clock = _first_existing("app.base.clock:Clock", "app.clock:Clock")
Settings = _first_existing("app.settings.settings:Settings", "app.settings:Settings")
Journal = _first_existing("app.engine.commit.journal:Journal", "app.commit.journal:Journal")
Dispatcher = _first_existing("app.engine.deliver.dispatcher:Dispatcher", "app.deliver.dispatcher:Dispatcher")
DestinationCluster = _first_existing(
    "app.engine.deliver.destination_cluster:DestinationCluster",
    "app.engine.deliver.target:Target",
    "app.deliver.target:Target",
)
DueLoop = _first_existing("app.engine.due.due_loop:DueLoop", "app.due.due_loop:DueLoop")
Ack = _first_existing("app.kafka:Ack")
Partition = _first_existing("app.engine.partition.partition:Partition", "app.partition.partition:Partition")
Services = _first_existing("app.engine.partition.services:Services", "app.partition.services:Services")
_first_existing("app.kafka.patches.lenient_records").install()
# Steps begin as soon as there is work, so they hold the same in each round.
_first_existing("app.engine.partition.pacing", "app.partition.pacing").until = lambda *_: 0.0


class Assembly:
    """One partition with its store, due loop and journal; its batches are acknowledged immediately."""

    def __init__(self, directory: Path) -> None:
        """Put it together, with an empty store in `directory`; an event loop must be running."""
        environment = {name: value for name, value in os.environ.items() if name.startswith("DELAY_")}
        fixed = {"DELAY_PARTITIONS": "1", "DELAY_GUARANTEE": "at_least_once"}  # one is every id's home
        self.settings = settings = Settings.from_env({"DELAY_DESTINATIONS": "*", **environment, **fixed})
        self._store = PartitionStore(directory / "0.db")
        clock, destinations, sender = Clock(), Destinations(), Acknowledged()
        dispatcher = built(
            Dispatcher,
            **_sections(settings),
            settings=settings,
            clock=clock,
            targets={None: DestinationCluster(destinations, sender)},
        )
        self._due = built(DueLoop, settings=settings, clock=clock, dispatcher=dispatcher, partitions={})
        table = SimpleNamespace(stores={_NUMBER: self._store})
        journal = built(
            AloneJournal, **_sections(settings), settings=settings, cluster=destinations, sender=sender, table=table
        )
        limits = SimpleNamespace(row=_MIB, request=_MIB, letter=_MIB, dead_letter=_MIB, cold=False)
        parts = {"settings": settings, "clock": clock, "journal": journal, "topics": destinations, "limits": limits}
        self._partition = built(Partition, number=_NUMBER, firing=self._due, services=built(Services, **parts), **parts)
        self._due.partitions[_NUMBER] = self._partition
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._partition.start(self._store, self._fail)
        self._partition.go_live()
        self._now_ms = clock.wall_ms() + _LATER_MS
        if hasattr(self._partition, "memory") and not os.environ.get(REMEMBER):
            self._partition.memory.watermark_ms = self._now_ms  # as a few seconds after requests have come

    async def take(self, fetches: Iterable[Fetch]) -> None:
        """Have the partition read the fetches and put them into the table."""
        offered: asyncio.Future[Any] = asyncio.gather(*[self._partition.offer(_read(*fetch)) for fetch in fetches])
        await asyncio.wait([offered, self._failed], return_when=asyncio.FIRST_COMPLETED)
        self._assure()

    async def deliver(self) -> None:
        """Have all that is pending delivered, and its rows removed."""
        claims, cycle = self._partition.claims, self._due.cycle
        while True:
            before = -1
            while len(claims) > before:  # as far as there is room, as under load
                before = len(claims)
                cycle(self._now_ms)
            if not claims:
                return
            while claims:
                await asyncio.sleep(0)
                self._assure()

    def pending(self) -> int:
        """Count the rows in the table."""
        return sum(1 for _ in self._store.rows())

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)

    def _assure(self) -> None:
        if self._failed.done():
            self._failed.result()

    async def close(self) -> None:
        """Stop, and close the store."""
        await self._partition.pause(0)
        self._store.close()
        self._assure()


def _read(topic: str, offset: int, raw: bytes) -> list[Any]:
    """Return the records of a fetch as the worker's consumer reads them."""
    checks_crcs, read_committed = True, 1
    records = fetcher.MemoryRecords(raw)
    partition_records = fetcher.PartitionRecords(
        TopicPartition(topic, 0), records, [], offset, None, None, checks_crcs, read_committed
    )
    return list(partition_records.take(None) if hasattr(partition_records, "take") else partition_records)


class AloneJournal(Journal):  # type: ignore[misc,valid-type]  # found at run time
    """The journal of a worker that has no neighbours."""

    async def check_alone(self, partition: int, now_ms: int) -> None:
        """Succeed: there is no other worker."""


class Acknowledged:
    """Replaces app.kafka.Sender: batches are built, and acknowledged immediately."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}

    def submit(self, topic: str, partition: int, batch: Any, **_: object) -> "asyncio.Future[Any]":
        """Build a batch and acknowledge it."""
        batch.build(1, 0, 0)
        acked: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + batch.count
        acked.set_result(Ack(offset, -1))
        return acked

    def blocked(self, topic: str, partition: int) -> bool:  # noqa: ARG002 - the sender's signature
        """Return False: no destination is blocked."""
        return False


class Destinations:
    """Replaces app.kafka.Cluster: each topic exists."""

    def partitions(self, topic: str) -> int:  # noqa: ARG002 - the cluster's signature
        """Return a topic's number of partitions."""
        return _DESTINATION_PARTITIONS

    async def learn(self, topics: Iterable[str]) -> None:
        """Do nothing: all topics are known."""


def _sections(settings: Any) -> dict[str, Any]:
    """Return the sections of the settings by the names of parameters, none in a tree where settings have none."""
    names = ("topics", "destinations", "engine")
    return {name: getattr(settings, name) for name in names if hasattr(settings, "topics")}


def built(make: Callable[..., T], **parts: object) -> T:
    """Make an object of the parts that its constructor names in this tree.

    Raises TypeError if it needs an unknown part.
    """
    takes = inspect.signature(make).parameters
    needed = {name for name, one in takes.items() if one.default is one.empty and one.kind not in _ANY_NUMBER}
    missing = sorted(needed - parts.keys())
    if missing:
        msg = f"{make.__qualname__} needs {', '.join(missing)} here: have benchmarks/hot_path/assembly.py give it."
        raise TypeError(msg)
    return make(**{name: part for name, part in parts.items() if name in takes})
