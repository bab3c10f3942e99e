"""Which partition of a destination a message goes to."""

import random

import pytest
from confluent_kafka import Producer

from punctual.contract.home import key_partition
from tests.integration.installation import Installation

#: From org.apache.kafka.common.utils.UtilsTest.testMurmur2: the hash before the sign bit is dropped.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_the_hash_is_that_of_kafkas_java_client(key: bytes) -> None:
    for partitions in (1, 2, 7, 1000):
        assert key_partition(key, partitions) == (VECTORS[key] & 0x7FFFFFFF) % partitions


def test_a_key_goes_where_kafkas_own_clients_send_it(installation: Installation) -> None:
    rnd = random.Random(7)  # noqa: S311 - any keys will do
    keys = [*VECTORS, b"", *(rnd.randbytes(rnd.randint(1, 40)) for _ in range(200))]
    to, twin = installation.topic(7), installation.topic(7)
    directly = Producer({"bootstrap.servers": installation.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        installation.requests.send({"delay-to": to, "delay-after": "0"}, key, b"")
        if key:  # librdkafka takes an empty key for none here, Java does not
            directly.produce(twin, b"", key)
    installation.requests.flush()
    directly.flush()

    delivered = {record.key: record.partition for record in installation.wait_for(to, len(keys))}
    sent = {record.key: record.partition for record in installation.wait_for(twin, len(keys) - 1)}
    assert {key: partition for key, partition in delivered.items() if key} == sent
    assert delivered[b""] == key_partition(b"", 7)


def test_a_chosen_partition_is_honoured_whatever_the_key(installation: Installation) -> None:
    to = installation.topic(5)
    for number in range(20):
        headers = {"delay-to": to, "delay-after": "0", "delay-to-partition": str(number % 5)}
        installation.requests.send(headers, b"the same key", b"%d" % (number % 5))
    installation.requests.flush()

    records = installation.wait_for(to, 20)
    assert sorted((record.partition, record.value) for record in records) == sorted(
        (number % 5, b"%d" % (number % 5)) for number in range(20)
    )


def test_messages_without_a_key_spread_over_all_partitions(installation: Installation) -> None:
    to = installation.topic(4)
    for _ in range(400):
        installation.requests.send({"delay-to": to, "delay-after": "0"}, None, b"", partition=0)
    installation.requests.flush()

    records = installation.wait_for(to, 400)
    counts = [sum(record.partition == number for record in records) for number in range(4)]
    assert min(counts) >= 50, counts


def test_partitions_that_a_topic_gets_later_are_found(installation: Installation) -> None:
    to = installation.topic(1)
    installation.requests.send({"delay-to": to, "delay-after": "0", "delay-to-partition": "0"}, None, b"first")
    installation.requests.flush()
    installation.wait_for(to, 1)
    installation.grow(to, 3)

    installation.requests.send({"delay-to": to, "delay-after": "0", "delay-to-partition": "2"}, None, b"second")
    installation.requests.flush()
    assert {record.value: record.partition for record in installation.wait_for(to, 2)} == {b"first": 0, b"second": 2}
