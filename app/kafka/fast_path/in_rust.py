"""The fast path in Rust: calls the native extension (kernel/src/python), and names its results."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.kafka.fast_path.interface import (
    AcceptedRequests,
    BatchBuilder,
    DeliveredRows,
    InputRules,
    RequestBounds,
    RoutedRows,
    SentBatch,
)
from punctual.batches import BODY
from punctual.contract.record import Record
from tables import native_extension
from tables.changes import Pairs

_extension: Any = native_extension.module
REQUESTS_PER_CALL = 1_000


def unpack(
    partition: tuple[str, int], raw: bytes, count: int, base_offset: int, base_timestamp: int, append_ms: int
) -> list[Record] | None:
    """Return the records of a batch; None if they are damaged: aiokafka reports the damage."""
    try:
        records: list[Record] = _extension.unpack(
            *partition, raw[BODY:], count, base_offset, base_timestamp, append_ms, 0
        )
    except ValueError:
        return None
    return records


def prepared(rules: InputRules) -> Any:
    """Return the extension's form of rules."""
    return _extension.Rules(*rules)


def requests(rules: Any, records: Sequence[Record], begin: int, end: int, bounds: RequestBounds) -> AcceptedRequests:
    """Return the longest run of plain requests as rows."""
    return AcceptedRequests(*_extension.requests(rules, records, begin, end, *bounds))


def route(rows: Pairs, begin: int, partitions: dict[str, int]) -> RoutedRows:
    """Return the longest run of plain rows, undecoded, by destination."""
    return RoutedRows(*_extension.route(rows, begin, partitions))


def due_times(rows: Pairs) -> Iterable[tuple[int, int]]:
    """Return pairs of a due time and the number of rows due then."""
    times: Iterable[tuple[int, int]] = _extension.dues(rows)
    return times


def batch_builder(limit: int, transactional: bool) -> BatchBuilder:  # noqa: FBT001 - as the interface has it
    """Return a builder of one batch."""
    builder: BatchBuilder = _extension.Builder(limit, transactional)
    return builder


def delivered(row_keys: list[bytes], begin: int, end: int, batch: SentBatch) -> DeliveredRows:
    """Return the longest run of plain rows that were delivered."""
    return DeliveredRows(*_extension.delivered(row_keys, begin, end, *batch))
