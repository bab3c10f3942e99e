"""What is sent to one destination partition in one go, and whose rows these are."""

import itertools
from collections import defaultdict
from operator import itemgetter

from app.kafka import Batch
from app.kafka.produce.batch import TARGET_BYTES
from app.partition.partition import Partition
from app.route import Route
from app.steps.occurrences import occurrence
from punctual.contract.dialects import OF_ROWS
from tables import Entry, keys
from tables.changes import Pairs
from tables.entry import encode

_headers, _first = OF_ROWS.delivery, itemgetter(0)

#: A claimed row on its way, and its key.
Row = tuple[Partition, bytes]


class DeliveryBatch:
    """A batch for one destination partition, and the rows in it."""

    __slots__ = ("batch", "following", "route", "rows", "sent_ms")

    def __init__(self, route: Route, *, transactional: bool) -> None:
        """Begin empty."""
        self.route, self.sent_ms = route, 0
        #: Bytes of the next occurrences that take the place of its rows: the step that ends these has no more room.
        self.following = 0
        self.batch, self.rows = Batch(transactional=transactional), list[Row]()

    def append(self, row: Row, entry: Entry, now_ms: int) -> bool:
        """Add a row; False if it doesn't fit any more."""
        following = 0
        if entry.series is not None:
            following = len(encode(entry))
            if self.rows and self.following + following > TARGET_BYTES:
                return False
            entry = occurrence(entry, keys.due_of(row[1]))
        if not self.batch.append(now_ms, entry.key, entry.value, _headers(entry, keys.due_of(row[1]))):
            return False
        self.rows.append(row)
        self.following += following
        return True

    def extend(self, owner: Partition, rows: Pairs, begin: int, now_ms: int) -> int:
        """Add usual rows, from the one at `begin` on, as far as they fit; return how many."""
        added = self.batch.deliver(now_ms, rows, begin)
        self.rows += zip(itertools.repeat(owner), map(_first, rows[begin : begin + added]))
        return added

    def by_owner(self) -> dict[Partition, list[bytes]]:
        """Return the keys of its rows by the partition that they belong to."""
        owners = defaultdict[Partition, list[bytes]](list)
        for owner, key in self.rows:
            owners[owner].append(key)
        return owners
