"""Consumers in other programs than the worker, and in gateways, pass over batches that unpack to too much."""

import asyncio

import aiokafka.conn
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.codec import zstd_encode

from app.kafka.wire.connection import QuickConnection
from punctual import batches
from punctual.bounded_fetch import bounded
from tests.harness.kafka import create_topic
from tests.harness.raw import PackedBatch, record_of, send_batches
from tests.integration.installation import new_app_id, topics_removed

pytestmark = [pytest.mark.core, pytest.mark.kafka]


def packed(*values: bytes | None) -> PackedBatch:
    body = b"".join(record_of(number, value) for number, value in enumerate(values))
    return PackedBatch(bytes(zstd_encode(body)), len(values), 4)


async def read(bootstrap: str, topic: str, end: int) -> list[tuple[int, int]]:
    """Return the offsets and sizes of the records that a consumer gets, each call no more than it has room for."""
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = bounded(AIOKafkaConsumer(bootstrap_servers=bootstrap, **options))
    await consumer.start()
    try:
        place, found = TopicPartition(topic, 0), list[tuple[int, int]]()
        consumer.assign([place])
        async with asyncio.timeout(60):
            while await consumer.position(place) < end:
                records = (await consumer.getmany(timeout_ms=500)).get(place, [])
                assert sum(len(one.value or b"") for one in records) <= batches.MAX_BYTES
                found += [(one.offset, len(one.value or b"")) for one in records]
        return found
    finally:
        await consumer.stop()


@pytest.mark.parametrize("connection", [aiokafka.conn.AIOKafkaConnection, QuickConnection])
def test_a_consumer_skips_records_that_are_too_large_and_reads_a_little_at_a_time(
    connection: type, bootstrap: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In gateways, aiokafka's connections are replaced, with their answers."""
    monkeypatch.setattr(aiokafka.conn, "AIOKafkaConnection", connection)
    app_id = new_app_id("bounded")
    with topics_removed(bootstrap, app_id):
        topic = create_topic(bootstrap, f"{app_id}-a")
        large = bytes(20 << 20)
        bombs = packed(bytes(batches.MAX_BYTES)), packed(*[None] * (batches.MAX_RECORDS + 1))
        asyncio.run(
            send_batches(bootstrap, topic, 0, packed(b"a"), bombs[0], packed(large), packed(large), packed(b"b"))
        )
        asyncio.run(send_batches(bootstrap, topic, 0, bombs[1]))
        crowded = PackedBatch(record_of(0, b"x", batches.MAX_HEADERS + 1), 1, 0)
        asyncio.run(send_batches(bootstrap, topic, 0, packed(b"c"), crowded, packed(b"d")))
        last = 5 + batches.MAX_RECORDS + 1
        found = asyncio.run(read(bootstrap, topic, last + 3))

    assert found == [(0, 1), (2, 20 << 20), (3, 20 << 20), (4, 1), (last, 1), (last + 2, 1)]
    assert f"{topic}-0: the batch at offset 1 is passed over: it has more than" in caplog.text
    assert f"{topic}-0: the batch at offset 5 is passed over: it has 100,001 records" in caplog.text
    assert f"{topic}-0: the batch at offset {last + 1} is passed over: a record has more than" in caplog.text
