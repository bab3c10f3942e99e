"""The reader of all workers' progress, on a real broker."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic

from app.dev.broker import Broker
from app.engine.reports.reader import MalformedProgressError, ProgressReader, decode_progress

pytestmark = pytest.mark.core

PATIENCE_S = 30

Record = Callable[..., dict[str, Any]]
MakeTopic = Callable[..., str]
Write = Callable[..., Awaitable[None]]


@pytest.fixture
def topic(new_topic: MakeTopic) -> str:
    return new_topic(prefix="progress", **{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})


@asynccontextmanager
async def producing(bootstrap: str, **options: str) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", **options)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@pytest.fixture
async def write(bootstrap: str) -> AsyncIterator[Write]:
    async with producing(bootstrap) as producer:

        async def write(topic: str, *records: dict[str, Any]) -> None:
            for one in records:
                await producer.send_and_wait(topic, msgspec.json.encode(one), b"%d" % one["partition"])

        yield write


@asynccontextmanager
async def reading(bootstrap: str, topic: str) -> AsyncIterator[ProgressReader]:
    reader = ProgressReader(bootstrap, topic)
    await reader.start()
    try:
        yield reader
    finally:
        await reader.stop()


async def caught_up(reader: ProgressReader) -> None:
    await asyncio.wait_for(reader.caught_up.wait(), PATIENCE_S)


async def shows(reader: ProgressReader, fired_to_ms: dict[int, int]) -> None:
    """Wait until the reader has exactly these partitions with exactly this progress."""
    await eventually(lambda: progress(reader) == fired_to_ms)


async def eventually(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not happened():  # noqa: ASYNC110 the condition has no event to wait on
            await asyncio.sleep(0.02)


def progress(reader: ProgressReader) -> dict[int, int]:
    return {number: report.progress.fired_to_ms for number, report in reader.reports.items()}


async def test_the_last_report_of_each_partition_counts(
    bootstrap: str, topic: str, record: Record, write: Write
) -> None:
    await write(topic, record(0, fired_to=1), record(1, fired_to=1), record(0, fired_to=2))
    async with reading(bootstrap, topic) as reader:
        await caught_up(reader)
        assert progress(reader) == {0: 2, 1: 1}
        assert reader.reports[0].offset == 2
        await write(topic, record(1, fired_to=3))
        await shows(reader, {0: 2, 1: 3})


async def test_the_time_of_a_report_is_the_brokers(bootstrap: str, topic: str, record: Record, write: Write) -> None:
    await write(topic, record(0, at=1))
    async with reading(bootstrap, topic) as reader:
        await caught_up(reader)
        assert reader.reports[0].appended_ms > 1_700_000_000_000


async def test_a_new_reader_starts_from_the_beginning(bootstrap: str, topic: str, record: Record, write: Write) -> None:
    await write(topic, *(record(number % 4, fired_to=number) for number in range(1200)))
    for _ in range(2):
        async with reading(bootstrap, topic) as reader:
            await caught_up(reader)
            assert progress(reader) == {0: 1196, 1: 1197, 2: 1198, 3: 1199}


async def test_a_malformed_record_does_not_hide_the_others(
    bootstrap: str, topic: str, record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    good = msgspec.json.encode(record(0, fired_to=7))
    async with producing(bootstrap) as producer:
        for key, value in [(b"0", good), (b"0", b"{"), (b"x", good), (b"x", None), (b"0", b'{"at":1}')]:
            await producer.send_and_wait(topic, value, key)
    with caplog.at_level(logging.WARNING, "app.engine.reports.reader"):
        async with reading(bootstrap, topic) as reader:
            await caught_up(reader)
            assert progress(reader) == {0: 7}
            assert reader.malformed == 4
    assert len(caplog.records) == 1
    assert "was not written by Punctual" in caplog.text


async def test_a_record_without_a_value_forgets_its_partition(
    bootstrap: str, topic: str, record: Record, write: Write
) -> None:
    await write(topic, record(0, fired_to=1), record(1, fired_to=1))
    async with reading(bootstrap, topic) as reader:
        await shows(reader, {0: 1, 1: 1})
        async with producing(bootstrap) as producer:
            await producer.send_and_wait(topic, None, b"1")
        await shows(reader, {0: 1})


async def test_an_empty_topic_is_caught_up_with_at_once(bootstrap: str, topic: str) -> None:
    async with reading(bootstrap, topic) as reader:
        await caught_up(reader)
        assert not reader.reports


async def test_reports_written_in_transactions_are_read_to_the_end(bootstrap: str, topic: str, record: Record) -> None:
    async with producing(bootstrap, transactional_id=topic) as producer, producer.transaction():
        await producer.send_and_wait(topic, msgspec.json.encode(record(0, fired_to=5)), b"0")
    async with reading(bootstrap, topic) as reader:
        await caught_up(reader)
        assert progress(reader) == {0: 5}


async def test_the_reader_waits_for_a_topic_that_does_not_exist_yet(
    bootstrap: str, admin: AdminClient, record: Record, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"progress-{uuid.uuid4().hex[:8]}"
    with caplog.at_level(logging.INFO, "app.engine.reports.reader"):
        async with reading(bootstrap, topic) as reader:
            await eventually(lambda: f"{topic} does not exist yet" in caplog.text)
            assert not reader.caught_up.is_set()
            admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(timeout=PATIENCE_S)
            await write(topic, record(3, fired_to=9))
            await shows(reader, {3: 9})
            await caught_up(reader)


async def test_without_kafka_starting_and_stopping_work_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "app.engine.reports.reader"):
        async with reading("127.0.0.1:1", "progress") as reader:
            await reader.start()
            await eventually(lambda: "cannot read progress, retrying" in caplog.text)
            assert not reader.caught_up.is_set()
            await reader.stop()
    await reader.stop()


@pytest.mark.kafka
async def test_reading_continues_after_the_broker_was_down(record: Record) -> None:
    with Broker() as broker:
        topic = "delay-progress"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE_S)
        async with reading(broker.bootstrap, topic) as reader:
            async with producing(broker.bootstrap) as producer:
                await producer.send_and_wait(topic, msgspec.json.encode(record(0, fired_to=1)), b"0")
            await shows(reader, {0: 1})
            await asyncio.to_thread(broker.stop)
            await asyncio.to_thread(broker.start)
            async with producing(broker.bootstrap) as producer:
                await producer.send_and_wait(topic, msgspec.json.encode(record(0, fired_to=2)), b"0")
            await shows(reader, {0: 2})


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"overdue": -1}, b"0"),
        ({"pending": {"orders": "many"}}, b"0"),
        ({"pending": {"orders": 1 << 61}}, b"0"),
        ({"pending": {str(number): 1 << 60 for number in range(9)}}, b"0"),
        ({"pending_rest": {"messages": -1}}, b"0"),
        ({"lateness": {"soon": 1}}, b"0"),
        ({"lateness": {"-5": 1}}, b"0"),
        ({"lateness": {"nan": 1}}, b"0"),
        ({"partition": -1}, b"-1"),
        ({}, b"1"),
        ({}, None),
    ],
)
def test_records_that_are_not_reports_are_refused(record: Record, changes: dict[str, Any], key: bytes | None) -> None:
    with pytest.raises(MalformedProgressError):
        decode_progress(key, msgspec.json.encode(record(**changes)))


@pytest.mark.parametrize("value", [b"", b"\xff", b"[" * 200_000, b"null", b'{"partition":"0"}', b"\x00" * 9])
def test_no_bytes_crash_the_reader(value: bytes) -> None:
    with pytest.raises(MalformedProgressError):
        decode_progress(b"0", value)


def test_reports_of_partitions_that_do_not_exist_are_ignored(record: Record) -> None:
    reader = ProgressReader("127.0.0.1:1", "delay-progress", partitions=4)
    assert reader.absorb(b"3", msgspec.json.encode(record(3)), 0, 0)
    assert not reader.absorb(b"4", msgspec.json.encode(record(4)), 1, 0)
    assert (set(reader.reports), reader.malformed) == ({3}, 1)
    assert reader.last(3) == msgspec.json.encode(record(3))
    assert reader.last(4) is None


def test_fields_of_newer_workers_are_ignored_and_optional_ones_may_be_absent(record: Record) -> None:
    value = record(0, new={"field": 1})
    for optional in ("next_due", "held", "lateness"):
        del value[optional]
    found = decode_progress(b"0", msgspec.json.encode(value))
    assert (found.next_due_ms, found.held_ms, found.lateness) == (None, {}, {})


def test_a_report_writes_the_contracts_names(record: Record) -> None:
    value = record(
        0, held={"orders": 5}, lateness={"5": 1}, settings={"DELAY_RATES": "0"}, read_to={"orders": 6}, reads=2, rows=2
    )
    assert msgspec.json.decode(msgspec.json.encode(decode_progress(b"0", msgspec.json.encode(value)))) == value
