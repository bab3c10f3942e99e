"""The group's consumer of a worker: it fetches committed records and offers them to their partitions."""

import asyncio
import random
from typing import TYPE_CHECKING, Any

from tests.simulation.log import Log

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.worker import Worker

#: Chunks of one topic partition on their way, as app/engine/faust_host/consumer.py has them.
_AHEAD = 2
_AGAIN_S = 0.1


class Cursor:
    """Where one topic partition is read next."""

    __slots__ = ("ahead", "generation", "heard_s", "log", "offset", "scheduled")

    def __init__(self, log: Log, offset: int, generation: int) -> None:
        """Begin at `offset`."""
        self.log, self.offset, self.generation = log, offset, generation
        self.ahead, self.scheduled, self.heard_s = 0, False, 0.0


class Consumer:
    """Stands where app.engine.faust_host.group_intake.GroupIntake, its consumer and Engine.hand_over stand."""

    def __init__(self, worker: "Worker", broker: "Broker", rnd: random.Random) -> None:
        """Begin without cursors."""
        self._worker, self._broker, self._rnd = worker, broker, rnd
        self._loop = asyncio.get_running_loop()
        self._cursors: dict[tuple[str, int], Cursor] = {}
        #: How long fetches take.
        self.lag_s = 0.01
        #: How much longer fetches of forwards take.
        self.forwards_lag_s = 0.0

    async def begin(self, partition: int, offsets: dict[str, int]) -> None:
        """Seek each input topic's partition to its offset and let records come."""
        await asyncio.sleep(self._rnd.uniform(0, 0.01))
        for topic, offset in offsets.items():
            log = self._broker.logs[topic][partition]
            cursor = self._cursors[topic, partition] = Cursor(log, offset, self._worker.ownership.generation)
            if self._grown not in log.watchers:
                log.watchers.append(self._grown)
            self._schedule(cursor)

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records have been fetched, or None if not known."""
        cursor = self._cursors.get((topic, partition))
        return None if cursor is None or cursor.ahead else cursor.offset

    def ahead(self, topic: str, partition: int) -> bool:
        """Return whether records have been fetched that are not in the table yet."""
        cursor = self._cursors.get((topic, partition))
        return cursor is not None and cursor.ahead > 0

    def heard(self, topic: str, partition: int) -> float | None:
        """Return when the consumer last learned the end of a partition: now if it has read all, else the last fetch."""
        cursor = self._cursors.get((topic, partition))
        if cursor is None:
            return None
        return cursor.heard_s if cursor.scheduled or cursor.ahead >= _AHEAD else self._loop.time()

    def written(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records are readable; forwards are read before they are committed."""
        log = self._broker.logs[topic][partition]
        return log.end if topic == self._worker.forwards else log.stable_end

    def forget(self) -> None:
        """Forget all positions."""
        for cursor in self._cursors.values():
            if self._grown in cursor.log.watchers:
                cursor.log.watchers.remove(self._grown)
        self._cursors.clear()

    def _grown(self, log: Log) -> None:
        cursor = self._cursors.get((log.topic, log.partition))
        if cursor is not None:
            self._schedule(cursor)

    def _schedule(self, cursor: Cursor, least_s: float = 0.0) -> None:
        if not cursor.scheduled:
            cursor.scheduled = True
            lag_s = self.forwards_lag_s if cursor.log.topic == self._worker.forwards else 0.0
            late_s = least_s + lag_s + self._rnd.uniform(0.0005, self.lag_s)
            self._loop.call_later(late_s, self._fetch, cursor, context=self._worker.process.context)

    def _fetch(self, cursor: Cursor) -> None:
        cursor.scheduled = False
        log, worker = cursor.log, self._worker
        if self._cursors.get((log.topic, log.partition)) is not cursor or cursor.ahead >= _AHEAD:
            return
        if self._broker.leaders[log.topic, log.partition] in self._broker.network.down:
            self._schedule(cursor, _AGAIN_S)
            return
        cursor.heard_s = self._loop.time()
        records = self._read(cursor)
        if records:
            cursor.ahead += 1
            partition = worker.ownership.partitions.get(log.partition)
            if partition is None or cursor.generation != worker.ownership.generation:
                return
            partition.offer(records).add_done_callback(lambda _: self._taken(cursor))
            self._schedule(cursor)

    def _read(self, cursor: Cursor) -> list[Any]:
        """Take what can be read, at most a few records."""
        log, records, limit = cursor.log, list[Any](), self._rnd.randint(1, 12)
        batches, _ = log.read(cursor.offset, committed=True)
        for batch in batches:
            if not batch.control and not log.is_aborted(batch):
                for record in batch.fetched(log.topic, log.partition):
                    if record.offset >= cursor.offset:
                        records.append(record)
                        cursor.offset = record.offset + 1
                        if len(records) == limit:
                            return records
            cursor.offset = batch.end
        return records

    def _taken(self, cursor: Cursor) -> None:
        cursor.ahead -= 1
        self._schedule(cursor)
