"""The objects that all stages use: the cluster, and the stores, journal and recovery of old and new partitions."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.base.clock import Clock
from app.base.process.datadir import claim
from app.engine.commit.journal import Journal
from app.engine.commit.transactional_journal import TransactionalJournal
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.ownership.internal_logs import InternalLogs
from app.engine.ownership.recovery import StoreRecovery
from app.engine.topics.internal_topics import TOMBSTONES_MS
from app.kafka import Cluster, Sender
from app.ops.repartition.topics import ClusterTopics
from app.settings.settings import Settings
from punctual.cli.progress import Progress
from tables import PartitionStore, Stores, keys

#: Partitions that are restored at the same time: one waits for the broker while another is written to disk.
_AT_ONCE = 4


class Side:
    """The old partitions, or the new ones."""

    def __init__(self, settings: Settings, cluster: Cluster, sender: Sender, directory: Path) -> None:
        """Begin without open databases; they will be under `directory`."""
        self.settings, self._directory = settings, directory
        self.table = Stores(directory, Clock.wall_ms, Clock.monotonic_ms)
        self.journal = _journal(settings, cluster, sender, self.table)
        logs = InternalLogs(settings.topics, settings.engine, cluster)
        guard = ChangelogGuard(
            settings.topics, settings.engine, self.table, self.journal, logs.changelog_id, _nothing_read
        )
        self.recovery = StoreRecovery(
            settings.topics, settings.engine, Clock(), self.table, self.journal, guard, TOMBSTONES_MS
        )

    @property
    def numbers(self) -> range:
        """The numbers of all partitions."""
        return range(self.settings.topics.partitions)

    @property
    def stores(self) -> list[PartitionStore]:
        """The stores of all partitions, after `read`."""
        return [self.table.stores[number] for number in self.numbers]

    async def read(self, what: str) -> None:
        """Restore all partitions to the changelog's end, with `what` as the title of the progress."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with room:
                await self.recovery.read(number)

        with Progress(f"partitions of {what}", len(self.numbers)) as progress:
            for done in asyncio.as_completed([one(number) for number in self.numbers]):
                await done
                progress.add(1)

    async def seal(self, number: int, to: str) -> None:
        """Become a partition's only writer, and seal its changelog in favour of `to`, if it is not sealed yet."""
        await self.journal.fence(number)
        store = await self.recovery.read(number)
        if store.sealed is None:
            await self.recovery.restore(number)
            await self._mark(number, to.encode())

    async def unseal(self, number: int) -> None:
        """Remove a partition's seal, so that workers go on with this changelog."""
        await self.journal.fence(number)
        if (await self.recovery.read(number)).sealed is not None:
            await self._mark(number, None)

    async def _mark(self, number: int, seal: bytes | None) -> None:
        store, now_ms = self.table.stores[number], Clock.wall_ms()
        batch = self.journal.new_batch()
        batch.append(now_ms, keys.WRITER, keys.long_bytes(store.writer))
        batch.append(now_ms, keys.SEAL, seal)
        await self.journal.put(number, batch)
        reread = await self.recovery.read(number)
        assert reread.sealed == seal, "a seal that was acknowledged is not in the changelog"

    def close(self) -> None:
        """Close all stores."""
        for number in list(self.table.stores):
            self.table.close(number)

    def wipe(self) -> None:
        """Close and delete all databases."""
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class Ground:
    """The connections and databases of a running command."""

    def __init__(self, settings: Settings, after: int, topics: ClusterTopics, cluster: Cluster, sender: Sender) -> None:
        """Change the installation of `settings` to `after` partitions."""
        self.topics, self.cluster, self.sender = topics, cluster, sender
        self.directory = settings.data_path / "repartition"
        new = settings.repartitioned(after)
        self.before = Side(settings, cluster, sender, self.directory / "before")
        self.after = Side(new, cluster, sender, self.directory / "after")

    def wipe(self) -> None:
        """Remove all databases; the directory's lock stays."""
        self.before.wipe()
        self.after.wipe()


@asynccontextmanager
async def ground(settings: Settings, after: int) -> AsyncIterator[Ground]:
    """Connect, and lock the directory for this process.

    Raises PunctualError, or aiokafka's KafkaError if no broker responds.
    """
    lock = claim(settings.data_path / "repartition")
    topics, cluster = (
        ClusterTopics(settings.kafka, settings.topics),
        Cluster(settings.kafka.bootstrap, **settings.kafka.options()),
    )
    try:
        await topics.start()
        await cluster.start(settings.topics.progress)
        sender = Sender(cluster)
        await sender.start()
        result = Ground(settings, after, topics, cluster, sender)
        try:
            yield result
        finally:
            result.before.close()
            result.after.close()
            await sender.stop()
    finally:
        await cluster.stop()
        await topics.close()
        lock.close()


async def _nothing_read(*_: object) -> dict[str, int]:
    """Return no positions: the new changelog has none of the inputs yet."""
    return {}


def _journal(settings: Settings, cluster: Cluster, sender: Sender, table: Stores) -> Journal:
    if settings.engine.exactly_once:
        return TransactionalJournal(
            lambda _: lambda: None, settings.destinations, settings.topics, settings.engine, cluster, sender, table
        )
    return Journal(settings.topics, settings.engine, cluster, sender, table)
