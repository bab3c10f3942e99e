"""The changelog when a run is over: it loses its head, or is deleted, and databases are all that is left."""

import asyncio
from typing import TYPE_CHECKING

from app.engine.partition.partition import State

if TYPE_CHECKING:
    from tables import Entry
    from tests.simulation.world import World

_LOOK_S = 0.1
_OVER = (State.STOPPED, State.LIVE)
#: One seed in this many loses records; half the runs lose the head, the others the whole topic.
_EVERY = 4
_LAST, _STRANGER, _NEXT = "last", "stranger", "next"


class OwnLogs:
    """Loses records of the changelog, and checks how workers cope.

    A worker with an empty disk must stop. A worker that had everything goes on, and writes it to the changelog again:
    after that an empty disk is enough.
    """

    def __init__(self, world: "World") -> None:
        """Begin without a loss."""
        self._world = world
        self._rows: dict[int, dict[bytes, Entry]] = {}

    @property
    def happens(self) -> bool:
        """Whether this run loses records."""
        return self._world.seed % _EVERY == _EVERY - 1

    async def lose(self) -> None:
        """Lose records while no worker runs, and have workers start."""
        world = self._world
        self._rows = world.rows()
        for number, store in world.owned().items():
            for topic, position in store.positions.items():
                world.broker.committed[topic, number] = position.offset
        worker = world.slots[_LAST]
        assert worker is not None
        await world.stop(worker)
        changelog = world.settings.topics.changelog
        if world.seed // _EVERY % 2:
            for log in world.broker.logs[changelog]:
                log.lose_head()
        else:
            world.broker.create(changelog, world.settings.topics.partitions)
        world.broker.note("the changelog is lost")
        await self._stops()
        await self._goes_on(_LAST, fuse=world.seed % 7 * 40)
        worker = world.slots[_LAST]
        assert worker is not None
        await world.stop(worker)
        await self._goes_on(_NEXT)

    async def _stops(self) -> None:
        """Check that a worker with an empty disk fires no message of a partition that had some."""
        world = self._world
        world.start(_STRANGER)
        worker = world.slots[_STRANGER]
        assert worker is not None
        while not worker.ready or len(partitions := worker.ownership.partitions) < world.settings.topics.partitions:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        while any(partition.state not in _OVER for partition in partitions.values()):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        for number, partition in partitions.items():
            read = any(of == number and offset for (_, of), offset in world.broker.committed.items())
            if read and partition.state is not State.STOPPED:
                world.troubles.append(
                    f"partition {number} goes on with an empty disk and a changelog that lost records"
                )
        await world.stop(worker)
        del world.slots[_STRANGER]

    async def _goes_on(self, slot: str, fuse: int = 0) -> None:
        """Check that a worker has all rows of before, and delivers no message again; it may crash on the way."""
        world = self._world
        world.start(slot)
        worker = world.slots[slot]
        assert worker is not None
        if fuse:
            worker.process.on_fuse, worker.process.fuse = worker.end, fuse
        await world.settled()
        if worker.process.alive:
            worker.process.fuse = 0
        if not world.troubles and world.rows() != self._rows:
            world.troubles.append(f"{slot} has other rows since the changelog was lost")
        if world.delivered_by(slot):
            world.troubles.append(f"{slot} has repeated settled deliveries, because the changelog was lost")
