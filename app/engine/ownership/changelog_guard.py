"""Checks that a changelog partition is complete: no lost head, no other topic of the same name, no lost tail.

Inputs have the same protection (app/engine/ownership/input_logs.py). A changelog is only compacted: its first offset is
0, its topic id stays, and it never ends before a database that was restored from it. Otherwise pending messages were
lost. A complete database writes them to the changelog again; without one the partition stops until the loss is
accepted.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from app.base.errors import PartitionStopped
from app.engine.commit.journal import Journal
from app.engine.steps.step import Step
from app.settings.engine import EngineSettings
from app.settings.topics import TopicSettings
from tables import Changes, PartitionStore, Position, Stores, keys
from tables.followed import UNFINISHED, WHOLE, Followed, head_at, unfinished, whole_from
from tables.restore import epoch_of

log = logging.getLogger(__name__)

_CHUNK = 2_000
#: A single record is never a step: it is a new owner's stamp, or the end of a transaction.
_NO_STEP = 1
_WAY_ON = (
    "Start the worker whose data directory last had this partition. Its database is complete, and the worker writes "
    "it to the changelog again. If this database no longer exists, set DELAY_ACCEPT_LOSS={name} and restart: the "
    "partition continues with the remaining records. docs/how-to/troubleshooting.md explains how to find the lost "
    "messages."
)
#: Returns the offsets that the group has committed for a partition of topics, without topics that were never read.
Committed = Callable[[int, Collection[str]], Awaitable[Mapping[str, int]]]


@dataclass(slots=True)
class _Changelog:
    """The state of a changelog partition: its topic's id, its first and its next offset.

    `trusted`: the local database was complete before the rest was read. `lost`: records are missing, which is accepted.
    `unknown`: the offsets up to which inputs were read that are missing in the changelog.
    """

    id: str
    begin: int
    end: int
    trusted: bool = False
    lost: bool = False
    unknown: Mapping[str, int] = field(default_factory=dict)


class ChangelogGuard:
    """Compares databases with the changelog, before and after they are restored from it."""

    def __init__(
        self,
        topics: TopicSettings,
        engine: EngineSettings,
        table: Stores,
        journal: Journal,
        log_id: Callable[[], Awaitable[str]],
        committed: Committed,
    ) -> None:
        """Guard the stores of `table`; `log_id` returns the changelog's topic id, "" if it is not known.

        `committed` returns the group's offsets.
        """
        self._topics, self._engine, self._table, self._journal = topics, engine, table, journal
        self._log_id, self._committed = log_id, committed
        self._changelogs: dict[int, _Changelog] = {}

    async def before(self, number: int, store: PartitionStore, begin: int, end: int) -> PartitionStore:
        """Check that a database is a copy of the changelog, before the rest is read; return the store to use.

        Raises PartitionStopped with instructions if it is not.
        """
        changelog = self._changelogs[number] = _Changelog(await self._log_id(), begin, end)
        followed = store.followed
        other = _moved(store, changelog) or store.offset > end
        gap = begin > store.offset + _NO_STEP
        changelog.trusted = followed.writing or (bool(store.offset) and not followed.restoring)
        if not changelog.trusted:
            if other or gap or not store.offset:
                store = self._anew(number, store, changelog)
        elif followed.writing or other or gap:
            store = await self._apart(number, store, changelog, other=other)
        elif followed.log != changelog.id:
            store.follow(msgspec.structs.replace(followed, log=changelog.id))
        return store

    async def after(self, number: int, store: PartitionStore) -> None:
        """Check that a restored store is complete.

        Raises PartitionStopped with instructions if it is not.
        """
        name, changelog, head = self._name(number), self._changelogs[number], store.head
        if store.followed.writing:
            return
        if not changelog.trusted and unfinished(head):
            self._accept_loss(
                number, f"a worker has begun to write {name} again from its database, and has not finished"
            )
        elif not changelog.trusted and store.followed.begun > whole_from(head):
            what = f"{name} begins at offset {store.followed.begun}: its first records were deleted"
            self._accept_loss(number, f"{what}, and with them pending messages. Its cleanup.policy must be compact")
        read = await self._committed(number, [topic for topic in self._inputs if topic not in store.positions])
        changelog.unknown = {topic: offset for topic, offset in read.items() if offset}
        if changelog.unknown:
            what = f"{name} has no positions for inputs that were read before ({_listed(changelog.unknown)})"
            self._accept_loss(number, f"{what}: it was deleted, or has lost records")

    async def settle(self, number: int, store: PartitionStore, now_ms: int) -> None:
        """Complete the changelog, as its only writer: from the database, or by accepting the loss."""
        changelog, followed = self._changelogs[number], store.followed
        gap = changelog.begin > whole_from(store.head) or unfinished(store.head)
        writes = followed.writing or (gap and not (changelog.lost and not changelog.trusted))
        if writes:
            await self._write(number, store, changelog, now_ms)
        if writes or changelog.lost:
            changes = Changes()
            changes.positions = {topic: Position(offset, -1, 0) for topic, offset in changelog.unknown.items()}
            await self._mark(number, changes, head_at(changelog.begin, WHOLE), now_ms)
        if writes or changelog.lost or followed.restoring:
            store.follow(Followed(changelog.id, changelog.begin))

    async def _apart(self, number: int, store: PartitionStore, changelog: _Changelog, *, other: bool) -> PartitionStore:
        """Return the store to use if database and changelog contradict each other: whichever is complete.

        Raises PartitionStopped if neither is.
        """
        name, moved = self._name(number), _moved(store, changelog)
        if (moved or not other) and await self._is_whole(number, changelog, moved=moved):
            log.warning("%s was rewritten by a worker; restoring the local database from it", name)
            changelog.trusted = False
            return self._anew(number, store, changelog)
        if store.followed.writing:
            pass
        elif other:
            await self._assure_replaced(number, store, changelog)
            log.warning("%s was created again. DELAY_ACCEPT_LOSS accepts this", name)
        else:
            what = f"{name} begins at offset {changelog.begin}, but the local database ends at {store.offset}"
            self._accept_loss(number, what)
            changelog.trusted = False
            return self._anew(number, store, changelog)
        seen, writer, _ = await self._survey(number, changelog)
        store.foreign.keys |= {key for key in seen if store.raw(key) is None}
        store.writer = max(store.writer, writer)
        store.follow(Followed(changelog.id, 0, writing=True), changelog.end)
        return store

    async def _assure_replaced(self, number: int, store: PartitionStore, changelog: _Changelog) -> None:
        """Check that a database may replace the changelog. Raises PartitionStopped."""
        if not self._engine.accepts_recreated(self._topics.changelog):
            msg = (
                f"{self._name(number)} ends at offset {changelog.end}, but the local database has it up to "
                f"{store.offset}: the topic was deleted and created again, or has lost its last records. Restore the "
                f"topic, or set DELAY_ACCEPT_LOSS=recreated:{self._topics.changelog} and restart: each worker writes "
                "its databases to the changelog. Keep all data directories."
            )
            raise PartitionStopped(msg)
        read = await self._committed(number, self._inputs)
        behind = {
            topic: offset
            for topic, offset in read.items()
            if offset > (store.positions[topic].offset if topic in store.positions else 0)
        }
        if behind:
            self._accept_loss(number, f"another worker has read {_listed(behind)}, so the local database is outdated")

    def _anew(self, number: int, store: PartitionStore, changelog: _Changelog) -> PartitionStore:
        """Return an empty database that will be restored from the whole changelog."""
        if store.offset:
            store = self._table.renew(number)
        store.follow(Followed(changelog.id, changelog.begin, restoring=True))
        return store

    async def _is_whole(self, number: int, changelog: _Changelog, *, moved: bool) -> bool:
        """Return whether a worker has written its whole database to the changelog."""
        _, _, head = await self._survey(number, changelog)
        return head is not None and head.crc == WHOLE and (moved or head.offset >= changelog.begin)

    async def _survey(self, number: int, changelog: _Changelog) -> tuple[set[bytes], int, Position | None]:
        """Return the keys in a changelog partition, the highest epoch, and its record about its head."""
        reader, seen, writer, head = self._journal.reader(number, changelog.begin), set[bytes](), 0, None
        while await reader.position() < changelog.end:
            for record in await reader.chunk(_CHUNK):
                if record.key == keys.WRITER:
                    writer = max(writer, epoch_of(record.value) or 0)
                elif record.key == keys.HEAD:
                    head = msgspec.msgpack.decode(record.value or b"", type=Position)
                elif record.key is not None:
                    seen.add(record.key)
        return seen, writer, head

    async def _write(self, number: int, store: PartitionStore, changelog: _Changelog, now_ms: int) -> None:
        """Write the whole database to the changelog; if interrupted, only this database can write it again."""
        name = self._name(number)
        log.warning("%s is missing records that the local database has; writing them again", name)
        store.follow(msgspec.structs.replace(store.followed, writing=True))
        await self._mark(number, Changes(), head_at(changelog.begin, UNFINISHED), now_ms)
        written = await self._journal.write_image(number, now_ms)
        log.warning("%s is complete again; %d records were written", name, written)

    async def _mark(self, number: int, changes: Changes, head: Position, now_ms: int) -> None:
        step = Step(now_ms)
        step.changes = changes
        step.changes.positions[""] = head
        await self._journal.commit(number, step)

    def _accept_loss(self, number: int, what: str) -> None:
        """Note that a loss is accepted. Raises PartitionStopped with instructions if it is not."""
        name, accepted = self._name(number), self._engine.accept_loss
        if self._topics.changelog not in accepted and name not in accepted:
            raise PartitionStopped(f"{what}. {_WAY_ON.format(name=name)}")
        self._changelogs[number].lost = True
        log.error("%s. DELAY_ACCEPT_LOSS accepts this", what)

    @property
    def _inputs(self) -> list[str]:
        return [*self._topics.inputs, self._topics.forwards]

    def _name(self, number: int) -> str:
        return f"{self._topics.changelog}-{number}"


def _moved(store: PartitionStore, changelog: _Changelog) -> bool:
    """Return whether a database is a copy of another topic of the same name."""
    return bool(store.followed.log and changelog.id) and store.followed.log != changelog.id


def _listed(read: Mapping[str, int]) -> str:
    """Return, as text, inputs and the offsets up to which they were read."""
    return ", ".join(f"{topic} up to offset {offset}" for topic, offset in sorted(read.items()))
