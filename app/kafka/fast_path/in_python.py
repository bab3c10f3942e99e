"""The fast path in Python: the reference, which runs where the native extension is missing."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from app.kafka.fast_path.interface import (
    AcceptedRequests,
    BatchBuilder,
    DeliveredRows,
    InputRules,
    RequestBounds,
    RoutedRows,
    SentBatch,
)
from punctual.contract.dialects.dialects import OF_ROWS
from punctual.contract.events import Event, encode
from punctual.contract.home import home_partition, key_partition
from punctual.contract.plain_requests import read_plain
from punctual.contract.record import Record
from punctual.contract.request import Headers
from tables import Entry, keys
from tables.changes import Pairs
from tables.commands import UNKNOWN_MS
from tables.entry import decode, encode_plain
from tables.keys import due_of, row_key

REQUESTS_PER_CALL = 500
#: Bytes that a row adds to the size of a step in addition to its value.
_ROW_OVERHEAD = 32
#: The partition of rows that can go to any partition.
_ANY = -1
_MAGIC, _NO_COMPRESSION = 2, 0
_NO_HEADERS: Headers = []
#: The index of the ID among the headers of a delivery.
_ID = -3

_first = itemgetter(0)

Rows = list[tuple[bytes, Entry]]


def unpack(
    partition: tuple[str, int],
    raw: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_ms: int,
) -> None:
    """Return None for every batch, so that aiokafka decodes it."""


def prepared(rules: InputRules) -> InputRules:
    """Return the rules as they are."""
    return rules


def requests(
    rules: InputRules, records: Sequence[Record], begin: int, end: int, bounds: RequestBounds
) -> AcceptedRequests:
    """Return the longest run of plain requests as rows."""
    topic, partition, crc, inputs, partitions, largest_row = rules
    base, allowed, stamp_ms, latest_ms, furthest_ms, now_ms, room = bounds
    id_kind, place = keys.ID, f"{topic}-{partition}-"
    size, ids, destinations = 0, dict[str, None](), dict[str, None]()
    id_keys, row_keys, rows, events = list[bytes](), list[bytes](), list[bytes](), list[tuple[bytes, bytes]]()
    for record in records[begin:end]:
        own_ms, offset = record.timestamp, record.offset + base
        if not 0 <= own_ms <= latest_ms or record.partition != partition or record.topic != topic:
            break
        fields = read_plain(record.headers)
        if fields is None:
            break
        id_, to, due_ms, users = fields
        if to not in allowed or due_ms > furthest_ms or "/" in to:
            break
        source, read_ms = f"{place}{offset}", own_ms if own_ms > stamp_ms else stamp_ms  # noqa: FURB136
        if id_ is None or id_ == source:
            id_, raw_id, asked_ms = source, source.encode(), UNKNOWN_MS
        else:
            raw_id, asked_ms = id_.encode(), read_ms
            if home_partition(raw_id, inputs, partitions) != partition:
                break
        row = encode_plain(id_, to, record.key, record.value, users, source, asked_ms)
        if len(row) > largest_row or id_ in ids:
            break
        stamp_ms = read_ms
        ids[id_] = destinations[to] = None
        id_keys.append(id_kind + raw_id)
        row_keys.append(row_key(due_ms, offset, crc))
        rows.append(row)
        events.append((raw_id, encode(Event("accepted", id_, now_ms, source, due_ms, to))))
        size += len(row) + _ROW_OVERHEAD
        if size >= room:
            break
    return AcceptedRequests(len(rows), stamp_ms, size, [*ids], id_keys, row_keys, rows, events, [*destinations])


def route(rows: Pairs, begin: int, partitions: dict[str, int]) -> RoutedRows:
    """Return the longest run of plain rows, decoded, by destination."""
    groups, count = dict[tuple[str, int], Rows](), 0
    for key, raw in rows[begin:]:
        entry = decode(raw)
        to = entry.to
        if (
            entry.commands
            or entry.attempts
            or entry.max_late_ms is not None
            or entry.series is not None
            or entry.cluster is not None
            or entry.url is not None
            or entry.if_late is not None
            or entry.next_try_ms is not None
            or "/" in to
            or not partitions.get(to)
        ):
            break
        number = entry.partition
        if number is None:
            number = _ANY if entry.key is None else key_partition(entry.key, partitions[to])
        destination = to, number
        group = groups.get(destination)
        if group is None:
            group = groups[destination] = []
        group.append((key, entry))
        count += 1
    return RoutedRows(count, [(to, number, group) for (to, number), group in groups.items()])


def due_times(rows: Rows) -> Iterable[tuple[int, int]]:
    """Return pairs of a due time and the number of rows due then."""
    return Counter(keys.dues_of(map(_first, rows))).items()


class _Builder:
    """aiokafka's builder of batches."""

    __slots__ = ("_builder", "count")

    def __init__(self, limit: int, transactional: bool) -> None:  # noqa: FBT001 - as the interface has it
        self._builder = DefaultRecordBatchBuilder(
            _MAGIC,
            _NO_COMPRESSION,
            is_transactional=int(transactional),
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=limit,
        )
        self.count = 0

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        if self._builder.append(self.count, timestamp_ms, key, value, headers) is None:
            return False
        self.count += 1
        return True

    def extend(self, timestamp_ms: int, records: Iterable[tuple[bytes, bytes | None]], skipped: int) -> int:
        append, count = self._builder.append, self.count
        for key, value in itertools.islice(records, skipped, None):
            if append(count, timestamp_ms, key, value, _NO_HEADERS) is None:
                break
            count += 1
        first, self.count = self.count, count
        return count - first

    def deliver(self, timestamp_ms: int, rows: Sequence[tuple[bytes, Entry]], begin: int) -> tuple[int, int]:
        append, count, id_bytes = self._builder.append, self.count, 0
        for key, entry in rows[begin:]:
            headers = OF_ROWS.delivery(entry, due_of(key))
            if append(count, timestamp_ms, entry.key, entry.value, headers) is None:
                break
            count += 1
            id_bytes += len(headers[_ID][1] or b"")
        first, self.count = self.count, count
        return count - first, id_bytes

    def build(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        self._builder.set_producer_state(producer_id, epoch, sequence)
        return bytes(self._builder.build())


def batch_builder(limit: int, transactional: bool) -> BatchBuilder:  # noqa: FBT001 - as the interface has it
    """Return a builder of one batch."""
    return _Builder(limit, transactional)


def delivered(row_keys: list[bytes], begin: int, end: int, batch: SentBatch) -> DeliveredRows:
    """Return the longest run of plain rows that were delivered."""
    first, claims, destination, now_ms, sent_ms, watermark_ms = batch
    sent = row_keys[begin:end]
    entries, events, get = dict[str, Entry](), list[tuple[bytes, bytes]](), dict.get
    for offset, key, due_ms in zip(itertools.count(first + begin), sent, keys.dues_of(sent)):
        entry = get(claims, key)  # faster than the subclass's own get()
        if (
            entry is None
            or entry.stamp_ms >= watermark_ms
            or entry.commands
            or entry.moved is not None
            or entry.dedupe_ms is not None
            or entry.asked_by is not None
            or entry.series is not None
            or entry.id in entries
        ):
            break
        id_ = entry.id
        entries[id_] = entry
        late_ms, place = sent_ms - due_ms, f"{destination}-{offset}"
        event = Event("delivered", id_, now_ms, entry.source, due_ms, entry.to, late_ms, place)
        events.append((id_.encode(), encode(event)))
    return DeliveredRows(len(entries), [*entries], [*entries.values()], events)
