"""Finds batches that a fenced producer has written nevertheless, in the brokers' log segments."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aiokafka.record.memory_records import MemoryRecords


@dataclass(frozen=True, slots=True)
class Written:
    """A batch of a transaction, or the mark of its end, which has no records."""

    partition: str
    offset: int
    producer: int
    epoch: int
    at_ms: int
    records: int


def accepted_from_fenced(logs: list[Path], app_id: str) -> int:
    """Count records that a producer wrote after a later one had begun with its transactional id.

    `logs` are the brokers' log directories; all topics of the installation must have the brokers' append time.
    """
    found = {batch for path in logs for batch in _written(path, app_id)}
    begun: dict[int, dict[int, int]] = {}
    for batch in found:
        epochs = begun.setdefault(batch.producer, {})
        epochs[batch.epoch] = min(batch.at_ms, epochs.get(batch.epoch, batch.at_ms))
    return sum(
        batch.records
        for batch in found
        if any(epoch > batch.epoch and at < batch.at_ms for epoch, at in begun[batch.producer].items())
    )


def _written(logs: Path, app_id: str) -> Iterator[Written]:
    for segment in logs.glob(f"{app_id}-*/*.log"):
        batches = MemoryRecords(segment.read_bytes())
        while batches.has_next():
            batch = batches.next_batch()
            if batch.is_transactional:
                where = segment.parent.name, batch.base_offset, batch.producer_id, batch.producer_epoch
                yield Written(*where, batch.max_timestamp, 0 if batch.is_control_batch else batch.last_offset_delta + 1)
