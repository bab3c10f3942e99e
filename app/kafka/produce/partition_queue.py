"""The batches of one partition that wait to be sent, and where it stands with its broker."""

import asyncio
from collections import deque

from app.kafka.errors import Recalled, SendError
from app.kafka.produce.batch import Ack, Batch
from app.kafka.produce.producer_id import ProducerId

#: Sequence numbers begin again at 0 after the largest that 31 bits can say.
SEQUENCES = 1 << 31


class PartitionQueue:
    """The queue of one partition: batches in order, one in flight."""

    __slots__ = (
        "alone",
        "attempt",
        "failing_since",
        "failures",
        "flying",
        "given_up",
        "gone",
        "partition",
        "pending",
        "producer",
        "retry_at",
        "sequence",
        "stale",
        "topic",
        "used",
        "why",
    )

    def __init__(self, topic: str, partition: int) -> None:
        """Begin with nothing sent."""
        self.topic, self.partition = topic, partition
        self.pending = deque[tuple[Batch, asyncio.Future[Ack]]]()
        self.flying = self.given_up = self.alone = False
        self.stale = False  # its numbers must not be used again
        self.used = True  # since the last look for idle ones
        self.attempt = 0
        self.producer: ProducerId | None = None
        self.sequence = 0
        self.failures = self.gone = 0
        self.retry_at = self.failing_since = 0.0
        self.why = ""  # of its last failure

    def build(self) -> bytes:
        """Return the first batch as it goes over the wire, numbered."""
        assert self.producer is not None, "it has one by the time that it is sent"
        return self.pending[0][0].build(*self.producer, self.sequence)

    def waits_for(self, batch: Batch) -> bool:
        """Return whether a batch is the first one, and has had no answer yet."""
        return bool(self.pending) and self.pending[0][0] is batch

    def stored(self, offset: int, timestamp_ms: int) -> None:
        """Hear that the broker has stored the first batch."""
        batch, acked = self.pending.popleft()
        self.sequence = (self.sequence + batch.count) % SEQUENCES
        self.failures = self.gone = 0
        self.flying = self.given_up = False
        if not acked.done():
            acked.set_result(Ack(offset, timestamp_ms))

    def refuse(self, failure: SendError) -> None:
        """Give the first batch back: it is not to be sent."""
        _, acked = self.pending.popleft()
        if not acked.done():
            acked.set_exception(failure)

    def recall(self) -> None:
        """Give all batches but the first one back, as Recalled, the last first."""
        while len(self.pending) > 1:
            _, acked = self.pending.pop()
            if not acked.done():
                acked.set_exception(Recalled(self.topic, self.partition))

    def renumber(self, producer: ProducerId) -> None:
        """Count from 0 again, under another producer id."""
        self.producer, self.sequence, self.stale = producer, 0, False
        for batch, _ in self.pending:
            batch.renumber()
