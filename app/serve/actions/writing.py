"""One record to one partition, by the worker's own sender."""

from typing import Final

from app.engine.engine import Engine
from app.kafka.produce.batch import NO_HEADERS, Ack, Batch
from punctual.contract.request import Headers

#: The maximum wait for Kafka while a user waits. A step takes milliseconds; a partition that moves, or is restored,
#: takes longer.
PATIENCE_S: Final = 10.0


async def write(
    engine: Engine, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers = NO_HEADERS
) -> Ack:
    """Write a record and return the broker's acknowledgement, without a time limit.

    Raises a SendError if the broker will never accept it.
    """
    batch = Batch()
    batch.append(engine.clock.wall_ms(), key, value, headers)
    return await engine.sender.submit(topic, partition, batch)
