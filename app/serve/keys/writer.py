"""Writes receipts: records for a partition whose last batch is in flight are collected into the next batch."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final, NamedTuple

from app.kafka.errors import Recalled, SendError
from app.kafka.produce.batch import Ack, Batch
from app.kafka.produce.sender import Sender

#: If a batch is in flight for longer, its partition counts as down, and requests do not wait for it.
PATIENCE_S: Final = 1.0
_AGAIN_S: Final = 0.05
#: The maximum records of a batch, some hundred KiB.
_MOST: Final = 1_000


class _Record(NamedTuple):
    key: bytes
    value: bytes
    stored: asyncio.Future[int]


class _Lane:
    """One partition: waiting records, and since when a batch is in flight."""

    def __init__(self) -> None:
        self.waiting: list[_Record] = []
        self.since_s: float | None = None


class ReceiptWriter:
    """Writes to one topic; write() never blocks."""

    def __init__(self, sender: Sender, topic: str, now_ms: Callable[[], int]) -> None:
        """Write with `sender`, which has started."""
        self._sender, self._topic, self._now_ms = sender, topic, now_ms
        self._lanes = defaultdict[int, _Lane](_Lane)
        self._loop = asyncio.get_running_loop()

    def down(self, partition: int) -> bool:
        """Return whether a partition does not accept records, or not soon."""
        since_s = self._lanes[partition].since_s
        return since_s is not None and self._loop.time() - since_s > PATIENCE_S

    def write(self, partition: int, key: bytes, value: bytes) -> asyncio.Future[int]:
        """Write a record; the future returns its offset, or raises a SendError.

        A record whose future is cancelled before it is sent is not written; a record in flight may still be written.
        """
        lane, stored = self._lanes[partition], self._loop.create_future()
        lane.waiting.append(_Record(key, value, stored))
        self._send(partition, lane)
        return stored

    def _send(self, partition: int, lane: _Lane, began_s: float | None = None) -> None:
        if lane.since_s is not None:
            return
        lane.waiting = [record for record in lane.waiting if not record.stored.done()]
        records, lane.waiting = lane.waiting[:_MOST], lane.waiting[_MOST:]
        if not records:
            return
        batch, fitting = Batch(), 0
        for record in records:
            if not batch.append(self._now_ms(), record.key, record.value):
                break
            fitting += 1
        lane.waiting[:0] = records[fitting:]
        lane.since_s = began_s or self._loop.time()
        acked = self._sender.submit(self._topic, partition, batch)
        acked.add_done_callback(lambda acked: self._stored(partition, lane, records[:fitting], acked))

    def _again(self, partition: int, lane: _Lane) -> None:
        began_s, lane.since_s = lane.since_s, None
        self._send(partition, lane, began_s)

    def _stored(self, partition: int, lane: _Lane, records: list[_Record], acked: "asyncio.Future[Ack]") -> None:
        began_s, lane.since_s = lane.since_s, None
        if acked.cancelled():
            return
        error = acked.exception()
        if isinstance(error, Recalled):  # an earlier batch of another sender's has failed
            lane.waiting[:0] = records
            lane.since_s = began_s
            self._loop.call_later(_AGAIN_S, self._again, partition, lane)
            return
        for place, record in enumerate(records):
            if record.stored.done():
                continue
            if error is None:
                record.stored.set_result(acked.result().offset + place)
            else:
                record.stored.set_exception(error if isinstance(error, SendError) else SendError(str(error)))
        self._send(partition, lane)
