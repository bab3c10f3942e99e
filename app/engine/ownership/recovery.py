"""Turns a changelog into a complete store with this worker as its only writer."""

import logging

from app.base.clock import Clock
from app.base.errors import PartitionStopped
from app.engine.commit.journal import Journal
from app.engine.ownership.changelog_guard import ChangelogGuard
from app.engine.steps.step import Step
from app.engine.steps.transitions import ended
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from tables import Inspection, PartitionStore, RecordsGarbled, Stores, keys
from tables.followed import whole_from

log = logging.getLogger(__name__)


class StoreRecovery:
    """Restores the partitions of one worker."""

    def __init__(
        self,
        topics: TopicSettings,
        engine: EngineSettings,
        clock: Clock,
        table: Stores,
        journal: Journal,
        guard: ChangelogGuard,
        tombstones_ms: int,
    ) -> None:
        """Restore stores of `table` with `journal`; the changelog keeps tombstones for `tombstones_ms`.

        `guard` checks that it is complete.
        """
        self._topics, self._engine, self._clock, self._table, self._journal = topics, engine, clock, table, journal
        self._guard, self._tombstones_ms = guard, tombstones_ms

    async def restore(self, number: int) -> PartitionStore:
        """Restore to the changelog's end and become the only writer.

        Raises PartitionStopped if the changelog is not complete, RecordUnreadable if a record cannot be read, and
        RecordsGarbled if unreadable records continue to arrive.
        """
        try:
            return await self._take_over(number)
        except RecordsGarbled as error:
            log.warning("partition %d: %s; scanning each record", number, error, extra={"partition": number})
            self._table.close(number)
            return await self._take_over(number, looked_at=True)

    async def read(self, number: int) -> PartitionStore:
        """Restore to the changelog's end, without becoming its writer.

        Raises RecordUnreadable if a record cannot be read.
        """
        try:
            return await self._read(number, looked_at=False)
        except RecordsGarbled:
            self._table.close(number)
            return await self._read(number, looked_at=True)

    async def end_replaced(self, number: int, store: PartitionStore) -> None:
        """End the rows that a later row of the same id had replaced when the process died."""
        now_ms = self._clock.now_ms()  # before offset_ms, because it notices jumps
        step = Step(now_ms, now_ms - self._clock.offset_ms)
        for key in list(store.clashes):
            entry = store.entry(key)
            if entry is None or store.find(entry.id) == key:
                store.clashes.discard(key)
                continue
            step.changes.remove(key, entry)
            ended(step, "replaced", keys.due_of(key), entry)
        if step:
            await self._journal.commit(number, step)

    async def _take_over(self, number: int, *, looked_at: bool = False) -> PartitionStore:
        name = f"{self._topics.changelog}-{number}"
        await self._journal.fence(number)
        store = await self._read(number, looked_at=looked_at)
        _assure_open(store, name)
        sent_ms, jumps = self._clock.now_ms(), self._clock.jumps
        # The clock must not be fast when the first message is sent.
        self._clock.confirm(sent_ms, jumps, await self._journal.claim(number, sent_ms))
        _assure_open(store, name)  # the restored records include all before the claim
        if store.foreign.keys:
            sentence = "partition %d: corrected %d keys that an outdated worker wrote"
            log.warning(sentence, number, len(store.foreign.keys), extra={"partition": number})
            await self._journal.rewrite(number, self._clock.wall_ms())
        await self._guard.settle(number, store, self._clock.wall_ms())
        return store

    async def _read(self, number: int, *, looked_at: bool) -> PartitionStore:
        name = f"{self._topics.changelog}-{number}"
        skip = self._engine.skipped(name)
        # A database of any age is opened, because it may be the only complete copy.
        store = self._table.open(number, 0)
        reader = self._journal.reader(number, store.offset)
        begin, end = await reader.begin(), await reader.end()
        store = await self._guard.before(number, store, begin, end)
        if not store.followed.writing and begin <= whole_from(store.head):
            young = self._table.open(number, self._clock.wall_ms() - self._tombstones_ms // 2)
            store = store if young is store else await self._guard.before(number, young, begin, end)
        reader = self._journal.reader(number, max(begin, store.offset))
        await self._table.restore(number, reader, skip, Inspection(name, skip) if looked_at else None)
        await self._guard.after(number, store)
        return store


def _assure_open(store: PartitionStore, name: str) -> None:
    """Raise PartitionStopped if the changelog is sealed in favour of another one."""
    if store.sealed is not None:
        msg = (
            f"{name} is sealed, because a repartition has begun or is complete. Its successor is "
            f"{store.sealed.decode()}. Start this worker again: it then says which settings it needs."
        )
        raise PartitionStopped(msg)
