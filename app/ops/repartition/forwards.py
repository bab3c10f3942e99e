"""Records in transit between partitions when workers stop: they must reach the new home partitions of their ids.

A worker that was stopped properly has forwarded all records before its positions, and none after. So each forward that
has not been applied is of a record before its partition's position. Later records are forwarded again.
"""

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import msgspec

from app.base.clock import Clock
from app.base.process.skipped_records import passed_over
from app.kafka import Batch
from app.kafka.metadata.reader import PartitionReader, Stored
from app.ops.repartition.errors import NotReady
from app.ops.repartition.ground import Ground, Side
from app.ops.repartition.moves import Moves
from punctual.contract import forward
from punctual.contract.record import PlainRecord
from punctual.contract.request import Refusal
from tables import PartitionStore, keys

#: The maximum that is kept in memory: workers that were stopped properly leave fewer.
MOST = 500_000
_BATCH_BYTES = 512 * 1024


class Source(NamedTuple):
    """A record of an input."""

    topic: str
    partition: int
    offset: int


class WaitingForward(NamedTuple):
    """A forward that has not been applied."""

    source: Source
    home: int
    key: bytes | None
    value: bytes | None


def source_of(text: str) -> Source:
    """Return the topic, partition and offset in a source's name."""
    topic, partition, offset = text.rsplit("-", 2)
    return Source(topic, int(partition), int(offset))


def ahead(side: Side) -> list[int]:
    """Return the partitions that have forwarded records beyond their positions, because they were killed."""
    partitions = set()
    for store in side.stores:
        for key, offset in store.origins.items():
            topic, _, partition = key[1:].decode().rpartition("-")
            source = Source(topic, int(partition), offset)
            if _is_ahead(side, source):
                partitions.add(source.partition)
    return sorted(partitions)


def _is_ahead(side: Side, source: Source) -> bool:
    """Return whether a partition has forwarded a record at or after its position; False if it is not of an input."""
    if source.topic not in side.settings.topics.inputs or source.partition not in side.numbers:
        return False
    position = side.table.stores[source.partition].positions.get(source.topic)
    return position is None or source.offset >= position.offset + position.base


async def ends(ground: Ground) -> dict[int, int]:
    """Return the end offset of each old partition of forwards, including open transactions."""
    topic = ground.before.settings.topics.forwards
    return {
        number: await PartitionReader(ground.cluster, topic, number).written_end() for number in ground.before.numbers
    }


async def waiting(ground: Ground, ends: dict[int, int], moves: Moves) -> list[WaitingForward]:
    """Return the forwards that have not been applied, in the order of their sources.

    Raises NotReady if there are too many, or if a partition was killed within a step.
    """
    forwards: list[WaitingForward] = []
    for number, store in enumerate(ground.before.stores):
        async for record in _unread(ground, number, store, ends[number]):
            left = _waiting(ground.before, store, record, moves, number)
            if left is not None:
                forwards.append(left)
            if len(forwards) > MOST:
                msg = (
                    f"more than {MOST:,} records are in transit between partitions. Start the workers with their "
                    "previous settings, wait until they have no lag, stop them and run the command again."
                )
                raise NotReady(msg)
    return sorted(forwards, key=lambda one: (one.source, one.home))


async def _unread(ground: Ground, number: int, store: PartitionStore, end: int) -> AsyncIterator[Stored]:
    topic = ground.before.settings.topics.forwards
    position = store.positions.get(topic)
    begin = await PartitionReader(ground.cluster, topic, number).begin()
    start = max(begin, 0 if position is None else position.offset)
    if start >= end:
        return
    async for record in PartitionReader(ground.cluster, topic, number, start).up_to(end):
        if record.offset < end:
            yield record


def _waiting(side: Side, store: PartitionStore, record: Stored, moves: Moves, number: int) -> WaitingForward | None:
    """Return a forward if it still has to be applied, or None: it was applied before, or is not from Punctual."""
    topic = side.settings.topics.forwards
    try:
        request = forward.decode(
            PlainRecord(topic, number, record.offset, record.timestamp_ms, record.key, record.value, record.headers)
        )
        source = source_of(request.source)
    except (Refusal, msgspec.MsgspecError, ValueError) as error:
        passed_over(topic, number, record.offset, error)
        return None
    if source.offset <= store.origins.get(keys.origin_key(source.topic, source.partition), -1):
        return None
    if _is_ahead(side, source):
        raise NotReady(cut_off(side, [source.partition]))
    return WaitingForward(source, moves.home(request.id), record.key, record.value)


def cut_off(side: Side, partitions: list[int]) -> str:
    """Return what to do about partitions whose workers were killed within a step."""
    named = ", ".join(map(str, partitions[:5])) + (" and more" if len(partitions) > 5 else "")  # noqa: PLR2004
    return (
        f"the workers of partition(s) {named} of {side.settings.topics.app_id} were killed while they processed a "
        "step. Start them with their previous settings, wait until they are ready, stop them with SIGTERM, and run the "
        "command again."
    )


async def pass_on(ground: Ground, left: list[WaitingForward]) -> None:
    """Write the pending forwards to the new topic. Workers recognize records that a repeated run writes again."""
    topic = ground.after.settings.topics.forwards
    for number, batch in _batches(left, Clock.wall_ms()):  # retention may depend on the time
        await ground.sender.submit(topic, number, batch)


def _batches(left: list[WaitingForward], now_ms: int) -> Iterator[tuple[int, Batch]]:
    """Yield the forwards in batches, each with the home partition of its records."""
    by_home: dict[int, list[WaitingForward]] = {}
    for one in left:
        by_home.setdefault(one.home, []).append(one)
    for home, there in by_home.items():
        batch = Batch(_BATCH_BYTES)
        for one in there:
            if not batch.append(now_ms, one.key, one.value):
                yield home, batch
                batch = Batch(_BATCH_BYTES)
                batch.append(now_ms, one.key, one.value)
        yield home, batch
