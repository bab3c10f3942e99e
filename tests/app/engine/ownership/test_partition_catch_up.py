"""What partitions wait for before they fire."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from prometheus_client import REGISTRY

from app.engine.ownership.partition_catch_up import PartitionCatchUp
from app.engine.partition.partition import Partition, State
from app.settings.settings import Settings
from tests.harness.simulated_time import in_simulated_time

if TYPE_CHECKING:
    from app.engine.ownership.input_logs import InputLogs
    from app.engine.ownership.unread_backlog import UnreadBacklog
    from app.engine.partition.partition import Firing
    from app.engine.partition.services import Services


def looked_at(began_s: float) -> "UnreadBacklog":
    """Return the backlog at that time."""
    return cast("UnreadBacklog", SimpleNamespace(began_s=began_s))


def partition_of() -> Partition:
    """Return a partition that has not begun."""
    parts = SimpleNamespace(settings=Settings.from_env({}), clock=None, journal=None, admission=None, quotas=None)
    return Partition(0, cast("Services", parts), cast("Firing", None))


class Behind(PartitionCatchUp):
    """Of partitions that never catch up."""

    def __init__(self) -> None:
        settings = Settings.from_env({"DELAY_CATCH_UP": "1"})
        self._topics, self._engine = settings.topics, settings.engine

    def _has_ingested(self, *_: object) -> bool:
        return False


class Ends:
    """Inputs that end at 2."""

    async def ends(self, _: int) -> dict[str, int]:
        return {"delay-requests": 2}


class Slow(PartitionCatchUp):
    """Of partitions whose first reading takes long."""

    def __init__(self) -> None:
        settings = Settings.from_env({})
        self._topics, self._engine, self._logs = settings.topics, settings.engine, cast("InputLogs", Ends())
        self.read: list[int] = []

    def _shared(self) -> "UnreadBacklog":
        return looked_at(asyncio.get_running_loop().time())

    async def _read_all(self, _partition: object, ends: dict[str, int], _look: object) -> None:
        self.read += ends.values()
        await asyncio.sleep(0.05 if len(self.read) == 1 else 0)


@pytest.mark.parametrize(("long_s", "read"), [(0.02, [1, 2]), (5.0, [1])])
@in_simulated_time
async def test_records_that_came_during_a_long_catch_up_are_read_too(
    monkeypatch: pytest.MonkeyPatch, long_s: float, read: list[int]
) -> None:
    monkeypatch.setattr("app.engine.ownership.partition_catch_up.BLIND_S", long_s)
    catching_up, partition = Slow(), partition_of()

    now = asyncio.get_running_loop().time()
    read_s = await catching_up.wait(partition, {"delay-requests": 1}, looked_at(now), now)

    assert catching_up.read == read
    assert read_s == pytest.approx(now + 0.05 * (len(read) - 1)), "records that came after the last look may be unread"


@pytest.mark.parametrize(("ends_s", "look_s"), [(-10.0, 0.0), (0.0, -10.0)])
@in_simulated_time
async def test_records_that_came_since_an_old_look_are_read_too(ends_s: float, look_s: float) -> None:
    catching_up, partition = Slow(), partition_of()

    now = asyncio.get_running_loop().time()
    await catching_up.wait(partition, {"delay-requests": 1}, looked_at(now + look_s), now + ends_s)

    assert catching_up.read == [1, 2]


@in_simulated_time
async def test_the_time_to_learn_the_ends_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    catching_up, partition = Slow(), partition_of()
    monkeypatch.setattr("app.engine.ownership.partition_catch_up.BLIND_S", 0.06)
    ends = catching_up._logs.ends

    async def slowly(number: int) -> dict[str, int]:
        await asyncio.sleep(0 if catching_up.read else 0.1)
        return await ends(number)

    monkeypatch.setattr(catching_up._logs, "ends", slowly)
    await catching_up.again(partition)

    assert len(catching_up.read) == 2


async def test_a_catch_up_that_is_cut_short_is_counted() -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("delay_catch_up_cut_short_total") or 0.0

    before, partition = counted(), partition_of()

    await Behind().wait(partition, {"delay-requests": 1}, looked_at(0.0), 0.0)

    assert partition.state is State.CATCHING_UP
    assert counted() == before + 1
