"""The fast path's interface: processes plain requests, rows and deliveries, many per call, from bytes to bytes.

*Plain* requests have a destination, a due time in digits, optionally an ID, and no other header of Punctual's
(punctual/contract/plain_requests.py). Their rows are plain until a command, a failure or a policy changes them.

There are two implementations: in_python.py, the reference, which runs everywhere; and in_rust.py, which calls the
native extension (kernel/). Both write the same bytes, and the same as the general code, which handles one request or
row at a time: tests/kernel compares all three. They differ only in the form of rows between route() and delivered():
Rust leaves them undecoded, Python passes entries.

Every call processes the longest run of plain items from its beginning, and returns the length of the run; 0 if the
first item is not plain. The caller processes the next item with the general code.

Counting rows and finding their IDs belongs to the table, which imports no other package of Punctual: see
tables/places.py.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from punctual.contract.record import Record
from punctual.contract.request import Headers
from tables import Entry
from tables.changes import Pairs, PlainRows

#: Items that are not plain are seldom alone: the general code handles this many before the fast path is called again.
ONE_BY_ONE: Final = 16


def next_length(taken: int) -> int:
    """Return how many items to offer to the next call: twice as many as the last call has `taken`."""
    return 2 * max(taken, ONE_BY_ONE)


class InputRules(NamedTuple):
    """The values that all requests of an input topic's partition share.

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
    """The limits for requests that a call may accept, and the times in their rows and events (epoch ms).

    `base` is added to offsets (`tables.Position.base`). Destinations must be in `allowed`. `stamp_ms` is the largest
    timestamp so far; a record's own is at most `latest_ms`, its due time at most `furthest_ms`. Events have the time
    `now_ms`. The run ends with the request that brings the rows to `room` bytes.
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

    `stamp_ms` is the largest timestamp now, `size` the bytes of the rows including a step's overhead per row. `events`
    are keys and values of records.
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
    """A run of `taken` plain rows, grouped by topic and partition; partition -1 is any partition."""

    taken: int
    groups: list[tuple[str, int, PlainRows]]


class SentBatch(NamedTuple):
    """A batch of deliveries that a broker has stored.

    The first one has the offset `first`; `destination` is `topic-partition`. `claims` are the rows in flight, by key.
    The batch was sent at `sent_ms`; events have the time `now_ms`. A row whose stamp is at least `watermark_ms` must be
    remembered, and is not plain.
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
        """The number of records in the batch."""

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers, /) -> bool:
        """Add a record; return False if it does not fit."""

    def extend(self, timestamp_ms: int, records: Iterable[tuple[bytes, bytes | None]], skipped: int, /) -> int:
        """Add as many records without headers as fit, after the first `skipped` ones; return their number."""

    def deliver(self, timestamp_ms: int, rows: Any, begin: int, /) -> tuple[int, int]:
        """Add the deliveries of `rows[begin:]`, plain rows of route(), as many as fit.

        Return their number, and the bytes of their IDs.
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
        """Return pairs of a due time (epoch ms) and the number of route()'s rows due then; a time can be repeated."""

    def batch_builder(self, limit: int, transactional: bool, /) -> BatchBuilder:  # noqa: FBT001 - positional in Rust
        """Return a builder of one batch of at most `limit` bytes."""

    def delivered(self, row_keys: list[bytes], begin: int, end: int, batch: SentBatch, /) -> DeliveredRows:
        """Return the longest run of plain rows in `row_keys[begin:end]`, no two with the same ID.

        A row is not plain here if its delivery must be remembered: it has a dedupe window, another record that asked
        for it, a move, a series, or waiting commands.
        """
