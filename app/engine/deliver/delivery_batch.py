"""A batch for one destination partition, and the owners of its rows."""

from collections.abc import Iterator
from operator import itemgetter

from app.engine.partition.partition import Partition
from app.engine.steps.occurrences import occurrence
from app.engine.steps.route import Route
from app.kafka import Batch
from app.kafka.produce.batch import TARGET_BYTES
from punctual.contract.dialects.dialects import OF_ROWS
from tables import Entry, keys
from tables.changes import PlainRows
from tables.entry import encode

_headers, _first = OF_ROWS.delivery, itemgetter(0)

#: The owner and the key of a claimed row.
Row = tuple[Partition, bytes]


class DeliveryBatch:
    """A batch for one destination partition, and the rows in it."""

    __slots__ = ("batch", "following", "id_bytes", "route", "runs", "sent_ms")

    def __init__(self, route: Route, limit: int, *, transactional: bool) -> None:
        """Begin an empty batch for a route, of at most `limit` bytes unless a single record is larger."""
        self.route, self.sent_ms = route, 0
        #: Bytes of the next occurrences that replace the rows: the step that ends the rows must have room for all.
        self.following = 0
        #: Bytes of the ids of the rows.
        self.id_bytes = 0
        self.batch = Batch(limit, transactional=transactional)
        #: The keys of the rows in order, by owner; an owner may have several runs.
        self.runs = list[tuple[Partition, list[bytes]]]()

    @property
    def rows(self) -> Iterator[Row]:
        """The rows in order."""
        return ((owner, key) for owner, keys in self.runs for key in keys)

    def append(self, row: Row, entry: Entry, now_ms: int) -> bool:
        """Add a row, with timestamp `now_ms`; return False if it does not fit."""
        following = 0
        if entry.series is not None:
            following = len(encode(entry))
            if self.runs and self.following + following > TARGET_BYTES:
                return False
            entry = occurrence(entry, keys.due_of(row[1]))
        if not self.batch.append(now_ms, entry.key, entry.value, _headers(entry, keys.due_of(row[1]))):
            return False
        self._run_of(row[0]).append(row[1])
        self.following += following
        self.id_bytes += len(entry.id.encode())
        return True

    def extend(self, owner: Partition, rows: PlainRows, begin: int, now_ms: int) -> int:
        """Add plain rows from index `begin` on, as many as fit, with timestamp `now_ms`; return how many."""
        added, id_bytes = self.batch.deliver(now_ms, rows, begin)
        self.id_bytes += id_bytes
        if added:
            self._run_of(owner).extend(map(_first, rows[begin : begin + added]))
        return added

    def _run_of(self, owner: Partition) -> list[bytes]:
        """Return the list of keys to which an owner's next row is added."""
        if not self.runs or self.runs[-1][0] is not owner:
            self.runs.append((owner, []))
        return self.runs[-1][1]
