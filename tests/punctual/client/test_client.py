"""The client with a real broker: the records of the requests topic follow the contract exactly."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from punctual import (
    ClientClosedError,
    DelayClient,
    InvalidOptionError,
    KafkaUnreachableError,
    PartitionCountError,
    RequestsTopicMissingError,
    RequestTooLargeError,
    SyncDelayClient,
)
from punctual.client.requests import Request
from punctual.contract.home import home_partition, key_partition
from tests.punctual.client.conftest import PARTITIONS, Installation

pytestmark = pytest.mark.core

SOON = timedelta(minutes=15)
DUE = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def client(installation: Installation) -> DelayClient:
    return DelayClient(installation.bootstrap, app_id=installation.app_id)


def headers(message: Message) -> list[tuple[str, bytes | None]]:
    found = message.headers()
    return list(found) if isinstance(found, list) else []


async def test_a_request_is_the_users_record_with_the_contracts_headers(
    client: DelayClient, installation: Installation
) -> None:
    async with client:
        given: list[tuple[str, bytes | None]] = [("b", b"\xff"), ("a", None), ("b", b"")]
        await client.delay("orders", b"\x00\xff", key=b"\x01", headers=given, at=DUE, id="r-1", max_late=SOON)

    [message] = installation.requests(1)
    assert message.key() == b"\x01"
    assert message.value() == b"\x00\xff"
    assert headers(message) == [
        ("delay-to", b"orders"),
        ("delay-at", b"1893456000000"),
        ("delay-id", b"r-1"),
        ("delay-max-late", b"900000"),
        *given,
    ]


async def test_the_automatic_id_is_where_the_request_stands(client: DelayClient, installation: Installation) -> None:
    async with client:
        ids = [await client.delay("orders", b"v", after=SOON) for _ in range(5)]

    stand = [f"{m.topic()}-{m.partition()}-{m.offset()}" for m in installation.requests(5)]
    assert sorted(ids) == sorted(stand)


async def test_an_id_of_ones_own_is_returned_and_goes_home(client: DelayClient, installation: Installation) -> None:
    ids = [f"order-{n}" for n in range(20)]
    async with client:
        assert [await client.delay("orders", b"v", after=SOON, id=one) for one in ids] == ids

    for message in installation.requests(20):
        own = dict(headers(message))["delay-id"]
        assert own is not None
        assert message.partition() == key_partition(own, PARTITIONS)


async def test_commands_go_to_where_their_message_is(client: DelayClient, installation: Installation) -> None:
    async with client:
        ids = [await client.delay("orders", b"v", after=SOON) for _ in range(8)]
        ids += [await client.delay("orders", b"v", after=SOON, id=f"r-{n}") for n in range(4)]
        where = {f"{m.topic()}-{m.partition()}-{m.offset()}": m.partition() for m in installation.requests(12)}
        for one in ids:
            await client.cancel(one)

    for message in installation.requests(12):
        target = (dict(headers(message))["delay-id"] or b"").decode()
        expected = where.get(target, key_partition(target.encode(), PARTITIONS))
        assert message.partition() == expected == home_partition(target, {installation.topic}, PARTITIONS)


async def test_automatic_ids_of_further_inputs_are_commanded_at_home(installation: Installation) -> None:
    async with DelayClient(installation.bootstrap, app_id=installation.app_id, inputs=["scheduler"]) as client:
        await client.deliver_now("scheduler-5-17")

    assert installation.requests(1)[0].partition() == 5


async def test_the_three_commands_are_records_without_a_value(client: DelayClient, installation: Installation) -> None:
    async with client:
        await client.cancel("r-1", if_due=DUE)
        await client.reschedule("r-1", after=SOON)
        await client.deliver_now("r-1")

    cancel, reschedule, hurry = installation.requests(3)
    assert headers(cancel) == [("delay-op", b"cancel"), ("delay-id", b"r-1"), ("delay-if-due", b"1893456000000")]
    assert headers(reschedule) == [("delay-op", b"reschedule"), ("delay-id", b"r-1"), ("delay-after", b"900000")]
    assert headers(hurry) == [("delay-op", b"deliver-now"), ("delay-id", b"r-1")]
    assert {message.value() for message in (cancel, reschedule, hurry)} == {None}


async def test_requests_without_an_id_follow_their_key_as_in_any_kafka_client(
    client: DelayClient, installation: Installation
) -> None:
    async with client:
        for n in range(10):
            await client.delay("orders", b"v", key=f"k{n}", after=SOON)

    for message in installation.requests(10):
        assert message.partition() == key_partition(bytes(message.key() or b""), PARTITIONS)


async def test_requests_without_id_and_key_spread(client: DelayClient, installation: Installation) -> None:
    async with client:
        await asyncio.gather(*[client.delay("orders", b"v", after=SOON) for _ in range(200)])

    counts = Counter(message.partition() for message in installation.requests(200))
    assert len(counts) == PARTITIONS


async def test_a_message_without_key_and_value_is_a_message(client: DelayClient, installation: Installation) -> None:
    async with client:
        message_id = await client.delay("orders", None, after=SOON)

    [message] = installation.requests(1)
    assert (message.key(), message.value()) == (None, None)
    assert message_id == f"{message.topic()}-{message.partition()}-{message.offset()}"


async def test_a_refused_record_leaves_the_client_and_its_partition_working(installation: Installation) -> None:
    small = Installation(installation.bootstrap)
    small.create(**{"max.message.bytes": "2000"})
    async with DelayClient(small.bootstrap, app_id=small.app_id) as client:
        await client.delay("orders", b"before", id="r-1", after=SOON)
        with pytest.raises(RequestTooLargeError, match="too large"):
            await client.delay("orders", b"x" * 5000, id="r-1", after=SOON)
        await asyncio.gather(*[client.delay("orders", b"after", id="r-1", after=SOON) for _ in range(20)])

    assert [m.value() for m in small.requests(21)] == [b"before", *[b"after"] * 20]


async def test_a_missing_requests_topic_is_an_error_and_is_not_created(bootstrap: str) -> None:
    with pytest.raises(RequestsTopicMissingError, match=r"nobody-requests does not exist.*start a worker first"):
        await DelayClient(bootstrap, app_id="nobody").start()

    assert "nobody-requests" not in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics


async def test_another_number_of_partitions_than_said_is_an_error(installation: Installation) -> None:
    with pytest.raises(PartitionCountError, match="has 8 partitions, not 16"):
        await DelayClient(installation.bootstrap, app_id=installation.app_id, partitions=16).start()


async def test_an_address_without_a_broker_is_an_error() -> None:
    with pytest.raises(KafkaUnreachableError, match=r"No Kafka broker answers at 127\.0\.0\.1:1 "):
        await DelayClient(["127.0.0.1:1"]).start()


async def test_a_client_that_is_not_open_says_how_to_open_it(client: DelayClient) -> None:
    with pytest.raises(ClientClosedError, match="async with DelayClient"):
        await client.cancel("r-1")
    async with client:
        pass
    with pytest.raises(ClientClosedError):
        await client.delay("orders", b"", after=SOON)


async def test_a_client_can_be_opened_again(client: DelayClient) -> None:
    for _ in range(2):
        async with client:
            assert await client.delay("orders", b"", after=SOON, id="r-1") == "r-1"


@pytest.mark.parametrize("option", ["acks", "enable_idempotence", "transactional_id", "partitioner"])
def test_options_that_the_guarantees_need_cannot_be_switched_off(option: str) -> None:
    forbidden: dict[str, Any] = {option: 1}
    with pytest.raises(InvalidOptionError, match=f"{option} cannot be changed"):
        DelayClient("127.0.0.1:9092", **forbidden)


def test_the_sync_client_does_the_same_without_a_loop(installation: Installation) -> None:
    with SyncDelayClient(installation.bootstrap, app_id=installation.app_id) as client:
        assert client.delay("orders", "one", after=SOON, id="r-1") == "r-1"
        client.reschedule("r-1", at=DUE)
        client.deliver_now("r-1")
        client.pause_series("r-1")
        client.resume_series("r-1")
        client.cancel("r-1")

    operations = [dict(headers(message)).get("delay-op") for message in installation.requests(6)]
    assert operations == [None, b"reschedule", b"deliver-now", b"pause", b"resume", b"cancel"]


def test_a_sync_client_that_cannot_start_leaves_no_thread_running() -> None:
    client = SyncDelayClient("127.0.0.1:1")
    with pytest.raises(KafkaUnreachableError):
        client.start()
    with pytest.raises(ClientClosedError, match="SyncDelayClient"):
        client.cancel("r-1")
    client.close()


async def test_requests_that_are_sent_together_keep_their_order(installation: Installation) -> None:
    headers = (("delay-op", b"cancel"), ("delay-id", b"a"))
    requests = [Request(None, b"%d" % number + bytes(1_000), headers, b"a") for number in range(500)]
    async with DelayClient(installation.bootstrap, app_id=installation.app_id) as client:
        await client._connection.send_all(requests)
        with pytest.raises(RequestTooLargeError):
            await client._connection.send_all([*requests[:3], Request(None, bytes(2 << 20), (), b"b")])
        await client._connection.send_all(requests[:3])

    stored = installation.requests(500)
    assert len({message.partition() for message in stored}) == 1
    assert [message.value() for message in stored] == [request.value for request in requests]
