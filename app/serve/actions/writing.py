"""Writes one record to one partition with the worker's own sender."""

from typing import ClassVar, Final

from app.engine.engine import Engine
from app.kafka.produce.batch import NO_HEADERS, Ack, Batch
from app.serve.messages.outcome import PENDING
from app.serve.web.problem import TypedProblem
from punctual.contract.request import Headers

#: The maximum wait for Kafka while a user waits. A step takes milliseconds; a partition that moves, or is restored,
#: takes longer.
PATIENCE_S: Final = 10.0


class NotSent(TypedProblem):
    """Kafka has not accepted a request, command or job; `outcome` is the action's outcome in the audit."""

    type_name = "kafka-unavailable"
    outcome: ClassVar[str] = "failed"


class Unconfirmed(NotSent):
    """Kafka has not confirmed a record in time, and may have stored it."""

    outcome = PENDING

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.headers.clear()  # repeated, it could be done twice


async def write(
    engine: Engine, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers = NO_HEADERS
) -> Ack:
    """Write a record and return the broker's acknowledgement, without a time limit. Raises a SendError."""
    batch = Batch()
    batch.append(engine.clock.wall_ms(), key, value, headers)
    return await engine.sender.submit(topic, partition, batch)
