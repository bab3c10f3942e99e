"""From a changelog to a store that is complete, with this worker as its only writer."""

import logging

from app.clock import Clock
from app.commit.journal import Journal
from app.errors import PartitionStopped
from app.settings import Settings
from app.steps.step import Step
from app.steps.transitions import ended
from tables import Inspection, PartitionStore, RecordsGarbled, Stores, keys

log = logging.getLogger(__name__)


class StoreRecovery:
    """Restores the partitions of one worker."""

    def __init__(self, settings: Settings, clock: Clock, table: Stores, journal: Journal, tombstones_ms: int) -> None:
        """Restore stores of `table`; the changelog keeps tombstones for `tombstones_ms`."""
        self._settings, self._clock, self._table, self._journal = settings, clock, table, journal
        self._tombstones_ms = tombstones_ms

    async def restore(self, number: int) -> PartitionStore:
        """Restore to the changelog's end and become the only writer.

        Raises RecordUnreadable if a record cannot be read; RecordsGarbled if such ones keep coming meanwhile.
        """
        try:
            return await self._take_over(number)
        except RecordsGarbled as error:
            log.warning("partition %d: %s; each record is looked at", number, error, extra={"partition": number})
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
        """End rows that a later row of the same id had replaced when the process died."""
        now_ms = self._clock.now_ms()  # before its offset: it notices jumps
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
        name = f"{self._settings.changelog}-{number}"
        await self._journal.fence(number)
        store = await self._read(number, looked_at=looked_at)
        _assure_open(store, name)
        sent_ms, jumps = self._clock.now_ms(), self._clock.jumps
        # Before anything is fired, the clock is known not to be fast.
        self._clock.confirm(sent_ms, jumps, await self._journal.claim(number, sent_ms))
        _assure_open(store, name)  # what came before the claim has been read with it
        if store.foreign.keys:
            sentence = "partition %d: %d keys that a zombie wrote are set right"
            log.warning(sentence, number, len(store.foreign.keys), extra={"partition": number})
            await self._journal.rewrite(number, self._clock.wall_ms())
        return store

    async def _read(self, number: int, *, looked_at: bool) -> PartitionStore:
        name = f"{self._settings.changelog}-{number}"
        skip = self._settings.skipped(name)
        now = self._clock.wall_ms()
        store = self._table.open(number, now - self._tombstones_ms // 2)
        reader = self._journal.reader(number, store.offset)
        begin, end = await reader.begin(), await reader.end()
        if store.offset > end:
            log.error(
                "partition %d: the local database is at offset %d of a changelog that ends at %d: it was emptied "
                "or recreated. The changelog is the truth: the local database is dropped.",
                number,
                store.offset,
                end,
                extra={"topic": self._settings.changelog, "partition": number, "offset": store.offset},
            )
            store = self._table.renew(number)
        reader = self._journal.reader(number, max(begin, store.offset))
        await self._table.restore(number, reader, skip, Inspection(name, skip) if looked_at else None)
        return store


def _assure_open(store: PartitionStore, name: str) -> None:
    """See that the changelog has not been left for another one. Raises PartitionStopped."""
    if store.sealed is not None:
        msg = (
            f"{name} is sealed: the number of partitions is changed, or has been, and {store.sealed.decode()} goes on "
            "from here. Start this worker again: it says which settings it needs."
        )
        raise PartitionStopped(msg)
