"""A changelog that has lost records stops its partition, unless a complete database writes it again."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from app.base.clock import Clock
from app.base.errors import PartitionStopped
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.ownership.recovery import StoreRecovery
from app.engine.steps.step import Step
from app.kafka.metadata.reader import Stored
from app.settings.settings import Settings
from tables import Changes, Entry, PartitionStore, Position, Stores, keys
from tables.changes import position_bytes
from tables.entry import encode
from tables.followed import UNFINISHED, head_at

if TYPE_CHECKING:
    from app.engine.commit.journal import Journal

NAME = "delay-delays-changelog"
LOST, AGAIN = {"DELAY_ACCEPT_LOSS": NAME}, {"DELAY_ACCEPT_LOSS": f"recreated:{NAME}"}
IDS = {"a", "b", "c"}


class Topic:
    """A changelog partition of a topic with an id, whose first records may be gone."""

    def __init__(self, id_: str = "first") -> None:
        self.id, self.begin, self.records = id_, 0, list[tuple[bytes, bytes | None]]()

    @property
    def end(self) -> int:
        return len(self.records)


class TopicReader:
    """Reads the remaining records of a topic."""

    def __init__(self, topic: Topic, offset: int) -> None:
        self._topic, self._position = topic, offset

    async def begin(self) -> int:
        return self._topic.begin

    async def end(self) -> int:
        return self._topic.end

    async def position(self) -> int:
        return self._position

    async def chunk(self, limit: int) -> list[Stored]:
        first = max(self._position, self._topic.begin)
        found = [Stored(at, 0, *self._topic.records[at]) for at in range(first, self._topic.end)][:limit]
        self._position = first + len(found)
        return found


class TopicJournal:
    """Writes to a topic that is there as a whole."""

    def __init__(self, stores: Stores, topic: Topic) -> None:
        self._stores, self._topic = stores, topic

    async def fence(self, _: int) -> None:
        """There is no other."""

    def reader(self, _: int, offset: int) -> TopicReader:
        return TopicReader(self._topic, offset)

    async def claim(self, partition: int, now_ms: int) -> int:
        self._append(partition, Changes(), self._stores.stores[partition].writer + 1)
        return now_ms

    async def commit(self, partition: int, step: Step) -> None:
        self._append(partition, step.changes, self._stores.stores[partition].writer)

    async def write_image(self, partition: int, _now_ms: int) -> int:
        store = self._stores.stores[partition]
        image = store.image(b"", 1_000)
        self._topic.records += image
        self._append(partition, Changes(), store.writer)
        return len(image)

    def _append(self, partition: int, changes: Changes, writer: int) -> None:
        self._topic.records += changes.records(writer)
        self._stores.stores[partition].apply(changes, self._topic.end, writer, Clock.wall_ms())


class Site:
    """Workers of an installation: each takes the partition over with the database in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.topic = directory, Topic()
        #: Up to where the group has read inputs.
        self.read: Mapping[str, int] = {}
        self._journal: TopicJournal | None = None

    async def start(self, disk: str, env: Mapping[str, str] | None = None) -> PartitionStore:
        settings = Settings.from_env(env or {})
        stores = Stores(self._directory / disk, Clock.wall_ms, Clock.monotonic_ms)
        self._journal = TopicJournal(stores, self.topic)
        journal = cast("Journal", self._journal)
        guard = ChangelogGuard(settings.topics, settings.engine, stores, journal, self._id, self._committed)
        recovery = StoreRecovery(settings.topics, settings.engine, Clock(), stores, journal, guard, 86_400_000)
        try:
            return await recovery.restore(0)
        except BaseException:
            stores.close(0)
            raise

    async def work(self, disk: str) -> PartitionStore:
        """Have a worker accept messages."""
        store = await self.start(disk)
        step = Step(Clock.wall_ms())
        for number, id_ in enumerate(sorted(IDS)):
            entry = Entry(id_, "orders", None, b"v", [], f"delay-requests-0-{number}")
            step.changes.put(keys.row_key(Clock.wall_ms() + 3_600_000, number, 0), entry, encode(entry))
        step.changes.positions["delay-requests"] = Position(3, Clock.wall_ms(), 0)
        assert self._journal is not None
        await self._journal.commit(0, step)
        self.read = {"delay-requests": 3}
        return store

    async def ids(self, disk: str, env: Mapping[str, str] | None = None) -> set[str]:
        """Return the state of a worker that starts."""
        store = await self.start(disk, env)
        found = {id_ for id_ in IDS if store.find(id_) is not None}
        store.close()
        return found

    async def _id(self) -> str:
        return self.topic.id

    async def _committed(self, _: int, topics: Collection[str]) -> Mapping[str, int]:
        return {topic: offset for topic, offset in self.read.items() if topic in topics}


@pytest.fixture
async def site(tmp_path: Path) -> Site:
    """An installation that has accepted messages, and whose worker has ended."""
    made = Site(tmp_path)
    (await made.work("own")).close()
    return made


async def test_a_changelog_that_is_whole_is_all_that_an_empty_disk_needs(site: Site) -> None:
    assert await site.ids("other") == await site.ids("own") == IDS


async def test_a_changelog_without_its_head_stops_an_empty_disk_until_the_loss_is_accepted(site: Site) -> None:
    site.topic.begin = site.topic.end
    with pytest.raises(PartitionStopped, match=rf"its first records were deleted.*DELAY_ACCEPT_LOSS={NAME}-0"):
        await site.ids("other")
    assert await site.ids("third", LOST) == set()
    assert await site.ids("third") == set(), "it was accepted"


async def test_a_complete_database_writes_a_changelog_without_its_head_again(site: Site) -> None:
    site.topic.begin = site.topic.end
    assert await site.ids("own") == IDS
    assert await site.ids("other") == IDS


async def test_a_database_that_ends_before_the_changelog_begins_stops(site: Site) -> None:
    (await site.work("other")).close()
    site.topic.begin = site.topic.end
    with pytest.raises(PartitionStopped, match="but the local database ends at"):
        await site.ids("own")
    assert await site.ids("other") == IDS


async def test_a_changelog_that_is_only_written_again_in_part_stops_an_empty_disk(site: Site) -> None:
    site.topic.records.append((keys.POSITION, position_bytes(head_at(0, UNFINISHED))))
    with pytest.raises(PartitionStopped, match="has not finished"):
        await site.ids("other")


async def test_with_an_empty_disk_a_recreated_changelog_is_detected_by_the_groups_offsets(site: Site) -> None:
    site.topic = Topic("second")
    with pytest.raises(PartitionStopped, match="has no positions for inputs that were read before"):
        await site.ids("other")


@pytest.mark.parametrize("longer", [False, True])
async def test_with_a_database_a_recreated_changelog_stops_the_partition_until_it_is_accepted(
    site: Site, *, longer: bool
) -> None:
    site.topic = Topic("second")
    site.topic.records += [(keys.WRITER, keys.long_bytes(1))] * (100 * longer)
    with pytest.raises(PartitionStopped, match=rf"created again.*DELAY_ACCEPT_LOSS=recreated:{NAME}"):
        await site.ids("own")
    assert await site.ids("own", AGAIN) == IDS
    assert await site.ids("other") == IDS


async def test_an_outdated_database_does_not_write_the_changelog_again(site: Site) -> None:
    site.topic, site.read = Topic("second"), {"delay-requests": 4}
    with pytest.raises(PartitionStopped, match="another worker has read delay-requests up to offset 4"):
        await site.ids("own", AGAIN)
