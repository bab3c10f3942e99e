"""The fast path's interface: what is done to plain requests, rows and deliveries, many per call, from bytes to bytes.

*Plain* requests have a destination, a due time in digits, perhaps an ID, and no other header of ours
(punctual/contract/plain_requests.py). Their rows are plain until a command, a failure or a policy touches them.

There are two implementations: in_python.py, the reference, which runs everywhere; and in_rust.py, which calls the
native extension (kernel/). Both write the same bytes, and the same as the general code, which handles one request or
row at a time: tests/kernel compares all three. They differ only in the form of rows between route() and delivered():
Rust leaves them undecoded, Python passes entries.

Every call takes the longest run of plain items from its beginning, and returns the length of the run; 0 if the first
item is not plain. The caller handles the next item in general.

Counting rows and finding their IDs belongs to the table, which has no other room of ours: see tables/places.py.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from punctual.contract.record import Record
from punctual.contract.request import Headers
from tables import Entry
from tables.changes import Pairs, PlainRows

#: Items that are not plain seldom come alone: the general code handles this many before the fast path is called again.
ONE_BY_ONE: Final = 16


def next_length(taken: int) -> int:
    """Return how many items to offer to the next call: twice as many as the last call has `taken`."""
    return 2 * max(taken, ONE_BY_ONE)


class InputRules(NamedTuple):
    """What is the same for all requests of an input topic's partition.

    `crc` is the checksum of the topic in row keys. An ID must have its home in this partition, one of `partitions`;
    `inputs` are all input topics. A row has at most `largest_row` bytes.
    """

    topic: str
    partition: int
    crc: int
    inputs: list[str]
    partitions: int
    largest_row: int


class RequestBounds(NamedTuple):
    """Which requests a call may take, and the times that go into their rows and events (epoch ms).

    `base` is added to offsets (`tables.Position.base`). Destinations must be in `allowed`. `stamp_ms` is the largest
    timestamp so far; a record's own is at most `latest_ms`, its due time at most `furthest_ms`. Events bear `now_ms`.
    The run ends with the request that brings the rows to `room` bytes.
    """

    base: int
    allowed: Collection[str]
    stamp_ms: int
    latest_ms: int
    furthest_ms: int
    now_ms: int
    room: int


class AcceptedRequests(NamedTuple):
    """A run of `taken` plain requests as rows; the lists have one item per request, `destinations` one per topic.

    `stamp_ms` is the largest timestamp now, `size` the bytes of the rows with what a step adds per row. `events` are
    keys and values of records.
    """

    taken: int
    stamp_ms: int
    size: int
    ids: list[str]
    id_keys: list[bytes]
    row_keys: list[bytes]
    rows: list[bytes]
    events: Pairs
    destinations: list[str]


class RoutedRows(NamedTuple):
    """A run of `taken` plain rows, grouped by topic and partition; partition -1 means that any will do."""

    taken: int
    groups: list[tuple[str, int, PlainRows]]


class SentBatch(NamedTuple):
    """A batch of deliveries that a broker has stored.

    The first one has the offset `first`; `destination` is `topic-partition`. `claims` are the rows that are being sent,
    by key. It was sent at `sent_ms`; events bear `now_ms`. A row whose stamp is not below `watermark_ms` leaves a
    trace, and is not plain.
    """

    first: int
    claims: dict[bytes, Entry]
    destination: str
    now_ms: int
    sent_ms: int
    watermark_ms: int


class DeliveredRows(NamedTuple):
    """A run of `taken` plain rows that were delivered and can be removed, with one item per row in each list."""

    taken: int
    ids: list[str]
    rows: list[bytes | Entry]
    events: Pairs


class BatchBuilder(Protocol):
    """Builds one record batch for a produce request; the first record is taken whatever its size."""

    @property
    def count(self) -> int:
        """How many records the batch has."""

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers, /) -> bool:
        """Add a record; return False if it does not fit."""

    def extend(self, timestamp_ms: int, records: Iterable[tuple[bytes, bytes | None]], skipped: int, /) -> int:
        """Add records without headers after the first `skipped`, as far as they fit; return how many."""

    def deliver(self, timestamp_ms: int, rows: Any, begin: int, /) -> tuple[int, int]:
        """Add the deliveries of `rows[begin:]`, plain ones of route(), as far as they fit.

        Return how many, and how many bytes their IDs have.
        """

    def build(self, producer_id: int, epoch: int, sequence: int, /) -> bytes:
        """Return the batch, numbered for an idempotent producer (KIP-98)."""


class FastPath(Protocol):
    """The calls, in the order of a message's life."""

    REQUESTS_PER_CALL: int
    """How many requests to offer to one call, so that due messages wait less than a millisecond for it."""

    def unpack(
        self,
        partition: tuple[str, int],
        raw: bytes,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_ms: int,
        /,
    ) -> list[Record] | None:
        """Return the `count` records of an uncompressed batch, decoded when they are read; None leaves it to aiokafka.

        `append_ms` is the timestamp of all records, -1 if each has its own.
        """

    def prepared(self, rules: InputRules, /) -> Any:
        """Return rules in the form that requests() takes."""

    def requests(
        self, rules: Any, records: Sequence[Record], begin: int, end: int, bounds: RequestBounds, /
    ) -> AcceptedRequests:
        """Return the longest run of plain requests in `records[begin:end]`, no two with the same ID, as rows."""

    def route(self, rows: Pairs, begin: int, partitions: dict[str, int], /) -> RoutedRows:
        """Return the longest run of plain rows in `rows[begin:]` whose topics have `partitions`, by destination."""

    def due_times(self, rows: Any, /) -> Iterable[tuple[int, int]]:
        """Return the due times (epoch ms) of rows of route(), and how many are due then; a time may come again."""

    def batch_builder(self, limit: int, transactional: bool, /) -> BatchBuilder:  # noqa: FBT001 - positional in Rust
        """Return a builder of one batch of at most `limit` bytes."""

    def delivered(self, row_keys: list[bytes], begin: int, end: int, batch: SentBatch, /) -> DeliveredRows:
        """Return the longest run of plain rows in `row_keys[begin:end]`, no two with the same ID.

        A row is not plain here if it leaves a trace: a dedupe window, another record that asked for it, a move, a
        series, waiting commands.
        """
