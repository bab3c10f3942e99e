"""The check: reads the new changelog as a worker does, and compares it with the old one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from app.ops.repartition.copying import marks, positions
from app.ops.repartition.errors import CheckFailed
from app.ops.repartition.ground import Ground
from app.ops.repartition.moves import Moves
from app.ops.repartition.survey import Survey, survey
from punctual.cli.progress import Progress
from tables import PartitionStore, keys
from tables.changes import decode_position

_DIGEST = 16
#: The maximum number of differences in the message.
_NAMED = 5


class Digests:
    """A sum of hashes per partition, which does not depend on the order of records."""

    def __init__(self) -> None:
        """Begin without records."""
        self.sums = Counter[int]()

    def add(self, partition: int, key: bytes, value: bytes) -> None:
        """Add a record to its partition's sum."""
        digest = blake2b(key, digest_size=_DIGEST)
        digest.update(value)
        self.sums[partition] += int.from_bytes(digest.digest(), "big")


async def check(ground: Ground, moves: Moves, before: Survey) -> Survey:
    """Check that the new changelog has all records of the old one, each once and in its partition.

    Raises CheckFailed with the differences.
    """
    await ground.after.read("the new changelog restored")
    stores = ground.after.stores
    there = survey(stores, moves, "rows read")
    differences = [*_counted(before, there), *_placed(ground, before, stores)]
    with Progress("rows compared", 2 * before.rows) as progress:
        wanted = _digests_before(ground.before.stores, moves, progress)
        given = _digests_after(stores, progress)
    differing = [number for number in ground.after.numbers if wanted.sums[number] != given.sums[number]]
    if differing:
        differences.append(f"partition(s) {', '.join(map(str, differing[:_NAMED]))} have other rows or marks")
    if differences:
        raise CheckFailed(differences[:_NAMED], ground.after.settings.topics.changelog)
    return there


def _counted(old: Survey, there: Survey) -> Iterator[str]:
    """Yield the counts that differ."""
    for what, before, after in (
        ("rows", old.rows, there.rows),
        ("callbacks", old.callbacks, there.callbacks),
        ("replaced rows", len(old.displaced), len(there.displaced)),
        ("rows elsewhere than their ids", 0, there.misplaced),
    ):
        if before != after:
            yield f"{after:,} {what} instead of {before:,}"
    for name in sorted(old.destinations.keys() | there.destinations.keys()):
        before, after = old.destinations[name], there.destinations[name]
        if before != after:
            yield f"{after:,} messages for {name!r} instead of {before:,}"
    for number in sorted(old.homes.keys() | there.homes.keys()):
        if old.homes[number] != there.homes[number]:
            yield f"{there.homes[number]:,} rows in partition {number} instead of {old.homes[number]:,}"


def _placed(ground: Ground, before: Survey, stores: Sequence[PartitionStore]) -> Iterator[str]:
    """Yield the stores whose counts differ from their rows, or with wrong positions."""
    for number, store in enumerate(stores):
        if store.counts.total != before.homes[number]:
            yield f"partition {number} counts {store.counts.total:,} messages and has {before.homes[number]:,}"
        wanted = {key[1:].decode(): decode_position(value) for key, value in positions(ground, before, number)}
        if store.positions != wanted:
            yield f"partition {number} has other positions"
        if store.origins or store.sealed is not None:
            yield f"partition {number} has a seal, or positions of forwarded records"


def _digests_before(stores: Sequence[PartitionStore], moves: Moves, progress: Progress) -> Digests:
    digests = Digests()
    for partition, store in enumerate(stores):
        for key, raw in store.raw_rows(b""):
            digests.add(*moves.row(partition, key, raw))
        progress.add(store.counts.total)
    for partition, key, value in marks(list(stores), moves):
        digests.add(partition, key, value)
    return digests


def _digests_after(stores: Sequence[PartitionStore], progress: Progress) -> Digests:
    digests = Digests()
    for partition, store in enumerate(stores):
        for key, raw in store.raw_rows(b""):
            digests.add(partition, key, raw)
        for key, value in store.marks():
            digests.add(partition, key, value)
        progress.add(store.counts.total)
    return digests


def due_next(store: PartitionStore) -> int | None:
    """Return when the first row is due (epoch ms), None if there is none."""
    row = store.next_row(b"")
    return None if row is None else keys.due_of(row)
