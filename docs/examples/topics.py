"""Shared by the examples: the address of Kafka, and a reader of new records."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

KAFKA = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
APP_ID = os.environ.get("DELAY_APP_ID", "delay")  # the worker's


@asynccontextmanager
async def arrivals(topic: str) -> AsyncIterator[AsyncIterator[ConsumerRecord]]:
    """Yield a topic's new records. Create the topic if it is missing, because messages go only to existing topics."""
    admin = AIOKafkaAdminClient(bootstrap_servers=KAFKA)
    await admin.start()
    try:
        if topic not in await admin.list_topics():
            await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()
    async with AIOKafkaConsumer(topic, bootstrap_servers=KAFKA, auto_offset_reset="latest") as consumer:
        for place in consumer.assignment():
            await consumer.position(place)  # once it is known, later messages are after it
        yield aiter(consumer)
