"""The waiting batches of one partition, and the producer id and epoch with which they are numbered."""

import asyncio
import random
from collections import deque

import aiokafka.errors as kafka
from aiokafka.protocol.transaction import InitProducerIdRequest

from app.kafka.errors import Recalled, SendError
from app.kafka.metadata.cluster import Cluster
from app.kafka.produce.batch import Ack, Batch

#: A producer id, and its epoch.
ProducerId = tuple[int, int]

_ASK_EVERY_S = 0.2


async def new_producer_id(cluster: Cluster) -> ProducerId:
    """Return a new producer id, as soon as the cluster returns one.

    Raises aiokafka.errors.KafkaError if the cluster refuses.
    """
    while True:
        response = await cluster.ask(InitProducerIdRequest(None, 0))
        error = kafka.for_code(response.error_code)
        if error is kafka.NoError:
            return response.producer_id, response.producer_epoch
        if not getattr(error, "retriable", False):
            raise error("the cluster returns no producer id")
        await asyncio.sleep(_ASK_EVERY_S)


#: Sequence numbers restart at 0 after the largest number of 31 bits.
SEQUENCES = 1 << 31
_BACKOFF_S, _BACKOFF_MAX_S = 0.02, 2.0


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
        """Create an empty queue for a topic's partition."""
        self.topic, self.partition = topic, partition
        self.pending = deque[tuple[Batch, asyncio.Future[Ack]]]()
        self.flying = self.given_up = self.alone = False
        self.stale = False  # its numbers must not be used again
        self.used = True  # since the last check for idle queues
        self.attempt = 0
        self.producer: ProducerId | None = None
        self.sequence = 0
        self.failures = self.gone = 0
        self.retry_at = self.failing_since = 0.0
        self.why = ""  # cause of its last failure

    def build(self) -> bytes:
        """Return the first batch in its wire format, with the producer's id and epoch and a sequence number."""
        assert self.producer is not None, "it has one by the time that it is sent"
        return self.pending[0][0].build(*self.producer, self.sequence)

    @property
    def is_idle(self) -> bool:
        """Whether no batch was submitted since the last check, waits or is in flight."""
        return not (self.used or self.pending or self.flying)

    def waits_for(self, batch: Batch) -> bool:
        """Return whether a batch is the first one, and has no answer yet."""
        return bool(self.pending) and self.pending[0][0] is batch

    def stored(self, offset: int, timestamp_ms: int) -> None:
        """Note that the broker has stored the first batch."""
        batch, acked = self.pending.popleft()
        self.sequence = (self.sequence + batch.count) % SEQUENCES
        self.failures = self.gone = 0
        self.flying = self.given_up = False
        if not acked.done():
            acked.set_result(Ack(offset, timestamp_ms))

    def refuse(self, failure: SendError) -> None:
        """Fail the first batch with `failure`, because it must not be sent."""
        _, acked = self.pending.popleft()
        if not acked.done():
            acked.set_exception(failure)

    def recall(self) -> None:
        """Fail all batches except the first one with Recalled, the last one first."""
        while len(self.pending) > 1:
            _, acked = self.pending.pop()
            if not acked.done():
                acked.set_exception(Recalled(self.topic, self.partition))

    def back_off(self, why: str, now_s: float) -> None:
        """Count a failed try, and wait longer before the next one."""
        self.failures, self.why = self.failures + 1, why
        backoff = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(self.failures, 10)) * random.uniform(0.5, 1)  # noqa: S311
        self.retry_at = now_s + backoff

    def renumber(self, producer: ProducerId) -> None:
        """Restart at sequence number 0 with another producer id."""
        self.producer, self.sequence, self.stale = producer, 0, False
        for batch, _ in self.pending:
            batch.renumber()
