"""`python -m benchmarks.queue`: an acknowledged queue compared with plain consumption of the same topic, in one run.

Both read the same records in batches and process none of them. Plain consumption commits its offsets after each batch;
the queue acknowledges each message separately. The cost in Kafka is counted too: records and bytes per message, of the
consumer and of the worker.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer

from app.dev.broker import Broker
from benchmarks import topics
from benchmarks.installation import Installation
from punctual.queue import DelayQueue

PARTITIONS = 4
_BATCH = 500


def main() -> int:
    """Measure, and print a JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue", description=__doc__)
    parser.add_argument("--count", type=int, default=50_000, help="messages of a round")
    parser.add_argument("--bytes", type=int, default=200, help="of a value")
    parser.add_argument("--rounds", type=int, default=3, help="each measures both, one after the other")
    options = parser.parse_args()
    with Broker() as broker, Installation(broker.bootstrap, "queue") as here:
        plain, queue, written = list[float](), list[float](), Counter[str]()
        for number in range(options.rounds):
            topic = f"{here.app_id}-in-{number}"
            topics.create(here.bootstrap, topic, PARTITIONS, 1)
            _produce(here.bootstrap, topic, options.count, options.bytes)
            plain.append(options.count / asyncio.run(_plain(here.bootstrap, topic, options.count)))
            before = _written(broker.directory, here.app_id)
            queue.append(options.count / asyncio.run(_queue(here.bootstrap, here.app_id, topic, options.count)))
            time.sleep(3)  # the worker's last steps
            written = _written(broker.directory, here.app_id) - before
    figures = {
        "messages": options.count,
        "plain consumption, messages/s": [round(rate) for rate in plain],
        "queue, messages/s": [round(rate) for rate in queue],
        "queue beside plain": round(statistics.median(b / a for a, b in zip(plain, queue, strict=True)), 3),
        "bytes written per message, by topic": {
            name: round(size / options.count) for name, size in written.items() if size
        },
    }
    print(json.dumps(figures, indent=1))
    return 0


def _produce(bootstrap: str, topic: str, count: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    for number in range(count):
        producer.produce(topic, bytes(size), b"key-%d" % (number % 1_000))
        if not number % 1_000:
            producer.poll(0.05)
    producer.flush(60)


async def _plain(bootstrap: str, topic: str, count: int) -> float:
    """Consume all records; return the seconds from the first one on."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"{topic}-plain",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        consumed, began = 0, 0.0
        while consumed < count:
            records = await consumer.getmany(timeout_ms=200, max_records=_BATCH)
            began = began or (time.monotonic() if records else 0.0)
            consumed += sum(map(len, records.values()))
            if records:
                await consumer.commit()
        return time.monotonic() - began


async def _queue(bootstrap: str, app_id: str, topic: str, count: int) -> float:
    """Acknowledge all messages; return the seconds from the first message until all acknowledgements are in Kafka."""
    queue = DelayQueue(bootstrap, topic, f"{topic}-queue", timedelta(minutes=10), app_id=app_id, max_unacked=5_000)
    consumed, began = 0, 0.0
    async with queue:
        async for batch in queue.batches(_BATCH):
            began = began or time.monotonic()
            consumed += len(batch)
            for message in batch:
                await message.ack()
            if consumed >= count:
                break
        await queue.flush()
        ended = time.monotonic()
    return ended - began


def _written(directory: Path, app_id: str) -> Counter[str]:
    """Return the sizes of an installation's topics on the broker's disk."""
    sizes = Counter[str]()
    for log in (directory / "logs").glob(f"{app_id}-*/*.log"):
        topic = log.parent.name.rpartition("-")[0].removeprefix(f"{app_id}-")
        if not topic.startswith("in-"):
            sizes[topic] += log.stat().st_size
    return sizes


if __name__ == "__main__":
    sys.exit(main())
