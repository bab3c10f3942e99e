"""No worker becomes the owner of a changelog that was replaced by another one."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from app.base.clock import Clock
from app.base.errors import PartitionStopped
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.ownership.recovery import StoreRecovery
from app.kafka.metadata.reader import Stored
from app.settings.settings import Settings
from tables import Changes, Stores, keys

if TYPE_CHECKING:
    from app.engine.commit.journal import Journal

SEAL = (keys.SEAL, b"delay-p24-delays-changelog")


class Reader:
    """Reads a log that is there as a whole."""

    def __init__(self, log: list[tuple[bytes, bytes | None]], offset: int) -> None:
        self._log, self._position = log, offset

    async def begin(self) -> int:
        return 0

    async def end(self) -> int:
        return len(self._log)

    async def position(self) -> int:
        return self._position

    async def chunk(self, limit: int) -> list[Stored]:
        found = [Stored(at, 0, *self._log[at]) for at in range(self._position, len(self._log))][:limit]
        self._position += len(found)
        return found


class FakeJournal:
    """A changelog that another writes to in the midst of the claim."""

    def __init__(self, stores: Stores, log: list[tuple[bytes, bytes | None]], meanwhile: bool) -> None:  # noqa: FBT001 - a case
        self._stores, self._log, self._meanwhile = stores, log, meanwhile
        self.claimed = False

    async def fence(self, _: int) -> None:
        """There is no other."""

    def reader(self, _: int, offset: int) -> Reader:
        return Reader(self._log, offset)

    async def claim(self, partition: int, now_ms: int) -> int:
        store, self.claimed = self._stores.stores[partition], True
        if self._meanwhile:
            store.replay([(keys.WRITER, keys.long_bytes(2)), SEAL], 3, now_ms)
        store.apply(Changes(), 4, 3, now_ms)
        return now_ms


def recovery(directory: Path, log: list[tuple[bytes, bytes | None]], *, meanwhile: bool = False) -> StoreRecovery:
    stores = Stores(directory, Clock.wall_ms, Clock.monotonic_ms)
    journal = cast("Journal", FakeJournal(stores, log, meanwhile))
    settings = Settings.from_env({})
    guard = ChangelogGuard(settings.topics, settings.engine, stores, journal, _no_id, _nothing_read)
    return StoreRecovery(settings.topics, settings.engine, Clock(), stores, journal, guard, 86_400_000)


async def _no_id() -> str:
    return ""


async def _nothing_read(*_: object) -> dict[str, int]:
    return {}


async def test_a_sealed_changelog_stops_its_partition(tmp_path: Path) -> None:
    made = recovery(tmp_path, [(keys.WRITER, keys.long_bytes(1)), SEAL])
    with pytest.raises(PartitionStopped, match=r"changelog-0 is sealed.*successor is delay-p24-delays-changelog"):
        await made.restore(0)
    assert (await made.read(0)).sealed == SEAL[1]
    assert not cast("FakeJournal", made._journal).claimed


async def test_a_changelog_sealed_just_before_the_claim_stops_the_partition_too(tmp_path: Path) -> None:
    with pytest.raises(PartitionStopped, match="is sealed"):
        await recovery(tmp_path, [(keys.WRITER, keys.long_bytes(1))], meanwhile=True).restore(0)


async def test_a_revoked_seal_does_not_stop_the_partition(tmp_path: Path) -> None:
    log: list[tuple[bytes, bytes | None]] = [(keys.WRITER, keys.long_bytes(1)), SEAL, (keys.SEAL, None)]
    assert (await recovery(tmp_path, log).restore(0)).writer == 3
