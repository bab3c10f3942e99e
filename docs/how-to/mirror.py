"""mirror.py SOURCE INPUT [--from GROUP] [--once]: copy a topic into an input of Punctual.

It begins at the topic's first record, or where the consumer group GROUP has stopped, and later where it has stopped
itself. --once ends when all there is has been copied. KAFKA_BOOTSTRAP_SERVERS, DELAY_PARTITIONS and
DELAY_REPLICATION_FACTOR are the worker's.
"""

import argparse
import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

SERVERS = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
PARTITIONS = int(os.environ.get("DELAY_PARTITIONS", "16"))
REPLICAS = int(os.environ.get("DELAY_REPLICATION_FACTOR", "3"))


async def prepare(source: str, target: str, group: str | None) -> dict[TopicPartition, int]:
    """Create the input if it is not there; return the source's partitions, and where to begin the first time."""
    admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
    await admin.start()
    # CreateTime: each copy keeps the time of its record, from which countdowns run.
    config = {"message.timestamp.type": "CreateTime", "retention.ms": "604800000"}
    await admin.create_topics([NewTopic(target, PARTITIONS, REPLICAS, topic_configs=config)])
    [topic] = await admin.describe_topics([source])
    stopped = await admin.list_consumer_group_offsets(group) if group else {}
    await admin.close()
    if not topic["partitions"]:
        sys.exit(f"there is no topic {source}")
    begin = {TopicPartition(source, each["partition"]): 0 for each in topic["partitions"]}
    return begin | {partition: at.offset for partition, at in stopped.items() if partition in begin}


async def mirror(source: str, target: str, begin: dict[TopicPartition, int], *, once: bool) -> None:
    """Copy what is there, and what comes; with `once`, what is there."""
    name = f"mirror-{source}-{target}"
    producer = AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id=name, max_request_size=16 << 20)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=SERVERS,
        group_id=name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with producer, consumer:  # in this order: a predecessor is cut off before anything is read
        consumer.assign(list(begin))  # no group has to find out first that a predecessor is gone
        for partition, offset in begin.items():
            if offset and await consumer.committed(partition) is None:
                consumer.seek(partition, offset)
        print(f"copying {source} to {target}", flush=True)
        while True:
            fetched = await consumer.getmany(timeout_ms=500)
            if fetched:
                async with producer.transaction():
                    await copy(producer, fetched, target)
                    read_to = {partition: records[-1].offset + 1 for partition, records in fetched.items()}
                    await producer.send_offsets_to_transaction(read_to, name)
            elif len(await producer.partitions_for(source)) > len(begin):
                sys.exit(f"{source} has more partitions now: start again")
            elif once and await at_end(consumer):
                break
    print(f"{source} is copied to {target}")


async def copy(producer: AIOKafkaProducer, fetched: dict, target: str) -> None:
    """Send what was fetched, as it is."""
    for record in (record for records in fetched.values() for record in records):
        if record.key is None and record.value is None:
            continue  # asks for nothing, and aiokafka sends no such record
        time_ms = record.timestamp if record.timestamp >= 0 else None
        await producer.send(target, record.value, record.key, timestamp_ms=time_ms, headers=list(record.headers))


async def at_end(consumer: AIOKafkaConsumer) -> bool:
    """Return whether all there is has been read."""
    ends = await consumer.end_offsets(consumer.assignment())
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])


async def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("input")
    parser.add_argument("--from", dest="group", metavar="GROUP")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    begin = await prepare(options.source, options.input, options.group)
    await mirror(options.source, options.input, begin, once=options.once)


if __name__ == "__main__":
    asyncio.run(main())
