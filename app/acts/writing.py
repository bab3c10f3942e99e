"""One record to one partition, by the worker's own sender."""

from app.engine import Engine
from app.kafka.produce.batch import NO_HEADERS, Ack, Batch, Headers


async def write(
    engine: Engine, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Headers = NO_HEADERS
) -> Ack:
    """Write a record and return what the broker says of it; it waits as long as it takes.

    Raises a SendError if the broker will never take it.
    """
    batch = Batch()
    batch.append(engine.now_ms(), key, value, headers)
    return await engine.sender.submit(topic, partition, batch)
