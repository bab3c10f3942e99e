"""The changelog restores to the contents of the stores, compacted or not, and counts follow from the rows."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from tables import PartitionStore, keys
from tables.counts import display_name
from tables.restore import StaleFilter
from tests.simulation.evidence import Evidence
from tests.simulation.log import Record
from tests.simulation.loop import EPOCH_MS


def untrue(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for everything that the changelogs and the stores have wrong."""
    rnd = random.Random(evidence.world.seed)  # noqa: S311
    for number, store in evidence.stores.items():
        log = evidence.world.broker.logs[evidence.world.settings.topics.changelog][number]
        records = [record for batch in log.committed() for record in batch.records(log.topic, number)]
        # Records of a zombie at the very end are not compacted before the owner reads them: the last segment never is.
        clean = min(store.offset, rnd.choice((0, log.end, rnd.randint(0, log.end))))
        wanted, found = _image(store), _restored(evidence, _compacted(records, clean), log.end)
        if found != wanted:
            differing = sorted(key for key in {*found, *wanted} if found.get(key) != wanted.get(key))
            yield f"the changelog of partition {number}, compacted up to {clean}, restores to others of {differing}"
        yield from _unsound(number, store)
        epochs = [int.from_bytes(record.value or b"", "big") for record in records if record.key == keys.WRITER]
        if evidence.exact and epochs != sorted(epochs):
            yield f"a zombie has written to the changelog of partition {number}"


def _restored(evidence: Evidence, records: Sequence[Record], end: int) -> dict[bytes, bytes]:
    scratch = evidence.world.scratch()
    StaleFilter(0).replay(scratch, records, end, EPOCH_MS)
    image = _image(scratch)
    scratch.wipe()
    return image


def _compacted(records: Sequence[Record], clean: int) -> list[Record]:
    """Return the records with only the last one of each key before offset `clean`."""
    last = {record.key: record.offset for record in records if record.offset < clean}
    return [record for record in records if record.offset >= clean or last[record.key] == record.offset]


def _image(store: PartitionStore) -> dict[bytes, bytes]:
    """Return the contents of a store without its position and its counts of namespaces (`teams.miscounted`)."""
    own = (keys.META, keys.SHARE)
    return {key: value for key, value in store._db.items() if key[:1] not in own or key == keys.SEAL}


def _unsound(number: int, store: PartitionStore) -> Iterator[str]:
    destinations: Counter[str] = Counter()
    hours: Counter[int] = Counter()
    for row, entry in store.rows():
        destinations[display_name(entry.to)] += 1
        hours[keys.due_of(row) // keys.BUCKET_MS] += 1
        if entry.url is None and store.find(entry.id) != row:  # a callback has the id of the failed message
            yield f"partition {number}: {entry.id} cannot be found"
    counts = store.counts
    if (counts.destinations, counts.hours, counts.total) != (destinations, hours, sum(hours.values())):
        yield f"partition {number}: the counts are not those of the rows"
