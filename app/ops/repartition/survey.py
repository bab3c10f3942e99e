"""One pass over the partitions of a changelog: counts, origins of rows, and rows in wrong places."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.ops.repartition.moves import Moves, Origin, head_of, numbered, origins_of
from punctual.cli.progress import Progress
from tables import PartitionStore, keys
from tables.counts import display_name

#: Rows that are read at a time, so that their ids are looked up together.
_CHUNK = 2_000


@dataclass(slots=True)
class Survey:
    """The number of `rows`, in total, by destination and by new partition.

    `displaced` are rows (partition and key) whose id a later row has taken: recovery ends them. `highest` is the
    highest offset in the keys of each new partition's rows. `misplaced` counts rows outside the home partition of
    their id.
    """

    rows: int = 0
    callbacks: int = 0
    moved: int = 0
    misplaced: int = 0
    destinations: Counter[str] = field(default_factory=Counter)
    homes: Counter[int] = field(default_factory=Counter)
    highest: dict[int, int] = field(default_factory=dict)
    displaced: list[tuple[int, bytes]] = field(default_factory=list)
    origins: set[Origin] = field(default_factory=set)
    #: The highest number that a row already has in place of a CRC-32.
    used: int = 0

    @property
    def numbers(self) -> dict[Origin, int]:
        """The numbers of the origins of rows that move. Raises TooManyOrigins."""
        return numbered(self.origins, self.used)


def survey(stores: Sequence[PartitionStore], moves: Moves, what: str) -> Survey:
    """Survey all rows of partitions, with their new places by `moves`; `what` is the title of the progress."""
    result = Survey()
    with Progress(what, sum(store.counts.total for store in stores)) as progress:
        for partition, store in enumerate(stores):
            rows = store.raw_rows(b"")
            while chunk := list(itertools.islice(rows, _CHUNK)):
                _look(result, partition, chunk, moves)
                result.displaced += _displaced(store, partition, chunk)
                progress.add(len(chunk))
    return result


def _look(result: Survey, partition: int, chunk: Sequence[tuple[bytes, bytes]], moves: Moves) -> None:
    result.rows += len(chunk)
    for key, raw in chunk:
        head = head_of(raw)
        offset, crc = keys.suffix_of(key)
        home = moves.home(head.id)
        result.homes[home] += 1
        result.destinations[display_name(head.to)] += 1
        result.callbacks += head.url is not None
        if result.highest.get(home, -1) < offset:
            result.highest[home] = offset
        numbers = [crc, *(command.topic_crc for command in head.commands)] if head.commands else (crc,)
        result.used = max((result.used, *(number for number in numbers if number < keys.MOVED)))
        if home != partition:
            result.moved += 1
            result.misplaced += head.url is None
            if head.commands or (partition, crc) not in result.origins:
                result.origins |= origins_of(partition, key, head.commands)


def _displaced(
    store: PartitionStore, partition: int, chunk: Sequence[tuple[bytes, bytes]]
) -> Iterator[tuple[int, bytes]]:
    """Yield rows whose id belongs to another row in the index."""
    owners = [(key, head) for key, raw in chunk if (head := head_of(raw)).url is None]
    there = store.find_many([head.id for _, head in owners])
    for (key, head), owner in zip(owners, there, strict=True):
        if owner != key and not any(command.op == "replace" for command in head.commands):
            yield partition, key
