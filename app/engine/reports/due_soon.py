"""What is due in the next minutes: counted as long as somebody asks for it every now and then, as Prometheus does."""

import asyncio
from collections.abc import Mapping
from typing import Final

from app.base.clock import Clock
from app.engine.partition.partition import Partition

#: How far ahead what is pending is counted, to the end of the minute.
AHEAD_S: Final = (60, 300, 900)
#: Rows of a partition at a time, a third of a millisecond; how soon there are more if that was not all, and if it was.
_ROWS: Final = 1_000
_SOON_S, _LATER_S = 0.02, 1.0
#: Nobody asks any more.
_SILENCE_MS: Final = 300_000
_MARGIN_MS: Final = 120_000


class DueSoon:
    """Has the stores of one worker look ahead."""

    def __init__(self, clock: Clock, partitions: Mapping[int, Partition]) -> None:
        """Look at nothing until somebody asks."""
        self._clock, self._partitions = clock, partitions
        self._asked, self._asked_ms = asyncio.Event(), 0

    def due(self) -> list[tuple[int, int]]:
        """Return how many messages are due by the ends of the minutes so many seconds ahead, as far as is known yet."""
        self._asked_ms = self._clock.monotonic_ms()
        self._asked.set()
        now_ms, working = self._clock.wall_ms(), self._working()
        found = []
        for ahead_s in AHEAD_S:
            counts = [one.store.counts.near.due_by(now_ms + ahead_s * 1_000) for one in working]
            known = [count for count in counts if count is not None]
            if len(known) == len(working):
                found.append((ahead_s, sum(known)))
        return found

    async def run(self) -> None:
        """Look ahead while somebody asks, until cancelled."""
        while True:
            await self._asked.wait()
            if self._clock.monotonic_ms() - self._asked_ms > _SILENCE_MS:
                self._asked.clear()
                for partition in self._working():
                    partition.store.counts.near.forget()
                continue
            await asyncio.sleep(_LATER_S if await self._look() else _SOON_S)

    async def _look(self) -> bool:
        """Look at some rows of each partition; return whether that was all there is."""
        until_ms, whole = self._clock.wall_ms() + AHEAD_S[-1] * 1_000 + _MARGIN_MS, True
        for number in list(self._partitions):
            partition = self._partitions.get(number)
            if partition is not None and partition.working:
                whole &= partition.store.look_ahead(until_ms, _ROWS)
                await asyncio.sleep(0)
        return whole

    def _working(self) -> list[Partition]:
        return [partition for partition in self._partitions.values() if partition.working]
