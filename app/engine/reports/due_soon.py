"""Counts messages due in the next minutes, as long as the counts are read regularly, as Prometheus does."""

import asyncio
from collections.abc import Mapping
from typing import Final

from app.base.clock import Clock
from app.engine.partition.partition import Partition

#: How far ahead pending messages are counted, rounded up to the end of the minute.
AHEAD_S: Final = (60, 300, 900)
#: Rows of a partition that are scanned at a time (0.3 ms), and the pauses during a scan and after it.
_ROWS: Final = 1_000
_SOON_S, _LATER_S = 0.02, 1.0
#: After this time without a reader, counting stops.
_SILENCE_MS: Final = 300_000
_MARGIN_MS: Final = 120_000


class DueSoon:
    """Makes the stores of one worker count upcoming messages."""

    def __init__(self, clock: Clock, partitions: Mapping[int, Partition]) -> None:
        """Count upcoming messages of `partitions` once `due` is called."""
        self._clock, self._partitions = clock, partitions
        self._wanted, self._wanted_ms = asyncio.Event(), 0

    def due(self) -> list[tuple[int, int]]:
        """Return pairs of seconds ahead and the number of messages due by then, as far as they are counted yet."""
        self._wanted_ms = self._clock.monotonic_ms()
        self._wanted.set()
        now_ms, working = self._clock.wall_ms(), self._working()
        totals = []
        for ahead_s in AHEAD_S:
            counts = [one.store.counts.near.due_by(now_ms + ahead_s * 1_000) for one in working]
            known = [count for count in counts if count is not None]
            if len(known) == len(working):
                totals.append((ahead_s, sum(known)))
        return totals

    async def run(self) -> None:
        """Count upcoming messages while the counts are read, until cancelled."""
        while True:
            await self._wanted.wait()
            if self._clock.monotonic_ms() - self._wanted_ms > _SILENCE_MS:
                self._wanted.clear()
                for partition in self._working():
                    partition.store.counts.near.forget()
                continue
            await asyncio.sleep(_LATER_S if await self._look() else _SOON_S)

    async def _look(self) -> bool:
        """Scan some rows of each partition; return whether all rows have been scanned."""
        until_ms, whole = self._clock.wall_ms() + AHEAD_S[-1] * 1_000 + _MARGIN_MS, True
        for number in list(self._partitions):
            partition = self._partitions.get(number)
            if partition is not None and partition.working:
                whole &= partition.store.look_ahead(until_ms, _ROWS)
                await asyncio.sleep(0)
        return whole

    def _working(self) -> list[Partition]:
        return [partition for partition in self._partitions.values() if partition.working]
