"""What partitions wait for before they fire."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from prometheus_client import REGISTRY

from app.ownership.assignment import Ownership
from app.partition.partition import State
from app.settings import Settings

if TYPE_CHECKING:
    from app.ownership.catch_up import CatchUp
    from app.partition.partition import Partition


def looked_at(began_s: float) -> "CatchUp":
    """Return a backlog that was looked at then."""
    return cast("CatchUp", SimpleNamespace(began_s=began_s))


class Behind(Ownership):
    """Of partitions that never catch up."""

    def __init__(self) -> None:
        self._settings = Settings.from_env({"DELAY_CATCH_UP": "1"})

    def _caught_up(self, *_: object) -> bool:
        return False


class Slow(Ownership):
    """Of partitions whose first reading takes long."""

    def __init__(self) -> None:
        self._settings = Settings.from_env({})
        self.read: list[int] = []

    async def _ends(self, _: int) -> dict[str, int]:
        return {"delay-requests": 2}

    def _shared_backlog(self) -> "CatchUp":
        return looked_at(asyncio.get_running_loop().time())

    async def _read_all(self, _partition: object, ends: dict[str, int], _backlog: object) -> None:
        self.read += ends.values()
        await asyncio.sleep(0.05 if len(self.read) == 1 else 0)


@pytest.mark.parametrize(("long_s", "read"), [(0.02, [1, 2]), (5.0, [1])])
async def test_what_came_during_a_long_catch_up_is_read_too(
    monkeypatch: pytest.MonkeyPatch, long_s: float, read: list[int]
) -> None:
    monkeypatch.setattr("app.ownership.assignment.BLIND_S", long_s)
    ownership, partition = Slow(), SimpleNamespace(number=0)

    now = asyncio.get_running_loop().time()
    await ownership._catch_up(cast("Partition", partition), {"delay-requests": 1}, looked_at(now), now)

    assert ownership.read == read


@pytest.mark.parametrize(("ends_s", "backlog_s"), [(-10.0, 0.0), (0.0, -10.0)])
async def test_what_came_since_it_was_looked_long_ago_is_read_too(ends_s: float, backlog_s: float) -> None:
    ownership, partition = Slow(), SimpleNamespace(number=0)

    now = asyncio.get_running_loop().time()
    await ownership._catch_up(
        cast("Partition", partition), {"delay-requests": 1}, looked_at(now + backlog_s), now + ends_s
    )

    assert ownership.read == [1, 2]


async def test_the_time_to_learn_the_ends_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ownership, partition = Slow(), SimpleNamespace(number=0)
    monkeypatch.setattr("app.ownership.assignment.BLIND_S", 0.06)
    monkeypatch.setattr(ownership, "_go_live", lambda *_: None)
    ends = ownership._ends

    async def slowly(number: int) -> dict[str, int]:
        await asyncio.sleep(0 if ownership.read else 0.1)
        return await ends(number)

    monkeypatch.setattr(ownership, "_ends", slowly)
    await ownership._read_again(cast("Partition", partition), 0)

    assert len(ownership.read) == 2


async def test_a_catch_up_that_is_cut_short_is_counted() -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("delay_catch_up_cut_short_total") or 0.0

    before, partition = counted(), SimpleNamespace(number=0, state=State.RESTORING)

    await Behind()._catch_up(cast("Partition", partition), {"delay-requests": 1}, looked_at(0.0), 0.0)

    assert partition.state is State.CATCHING_UP
    assert counted() == before + 1
