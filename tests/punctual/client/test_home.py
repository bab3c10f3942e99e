"""Every client and every worker must name the same home for an id."""

from datetime import timedelta

import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from punctual.client.connection import Connection
from punctual.client.errors import InvalidIdError
from punctual.contract.home import home_partition, key_partition

INPUTS = frozenset({"delay-requests", "orders"})


@given(st.binary(max_size=300), st.integers(min_value=1, max_value=10_000))
def test_keys_go_where_kafkas_own_partitioner_puts_them(key: bytes, partitions: int) -> None:
    assert key_partition(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("key", "hashed"),
    # org.apache.kafka.common.utils.UtilsTest.testMurmur2
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_agrees_with_kafkas_own_test_vectors(key: bytes, hashed: int) -> None:
    assert key_partition(key, 0x7FFFFFFF) == (hashed & 0x7FFFFFFF) % 0x7FFFFFFF


@pytest.mark.parametrize(
    ("message_id", "home"), [("delay-requests-3-1042", 3), ("orders-0-0", 0), (b"orders-15-99999999999", 15)]
)
def test_an_automatic_id_lives_in_the_partition_that_it_names(message_id: str | bytes, home: int) -> None:
    assert home_partition(message_id, INPUTS, 16) == home


@pytest.mark.parametrize(
    "message_id",
    [
        "order-17",
        "payments-3-1042",  # no input topic
        "orders-16-1042",  # no such partition
        "orders-3-",
        "orders--3",
        "-3-4",
        "3-4",
        "orders-3-4-x",
        "orders-\u0663-4",  # a digit, but not of ASCII
        "orders-+3-4",
        "Orders-3-4",
        "\u00f6rders-3-4",
        "x-orders-3-4",
        "orders-" + "9" * 200 + "-1",
    ],
)
def test_every_other_id_lives_where_its_hash_says(message_id: str) -> None:
    assert home_partition(message_id, INPUTS, 16) == key_partition(message_id.encode(), 16)


@given(st.text(max_size=60), st.integers(min_value=1, max_value=1000))
def test_text_and_bytes_of_an_id_have_one_home_within_range(message_id: str, partitions: int) -> None:
    raw = message_id.encode("utf-8", "replace")
    home = home_partition(raw, INPUTS, partitions)

    assert 0 <= home < partitions
    assert home == home_partition(raw.decode(), INPUTS, partitions)


def test_a_topic_with_numbers_in_its_name_is_read_from_the_right_end() -> None:
    assert home_partition("shop-1-7-42", {"shop-1", "shop"}, 16) == 7


def test_ids_on_a_teams_input_go_home_by_their_full_names() -> None:
    team = Connection("127.0.0.1:1", "orders-delays", ("orders-more",), timedelta(seconds=1), {}, "orders")

    assert [team.full(id_) for id_ in (b"42", b"orders/42", b"orders-delays-3-7", b"orders-more-3-7")] == [
        *(b"orders/42", b"orders/42", b"orders-delays-3-7", b"orders-more-3-7")
    ]
    assert Connection("127.0.0.1:1", "delay-requests", (), timedelta(seconds=1), {}).full(b"42") == b"42"
    with pytest.raises(
        InvalidIdError, match=r"delay-id has 257 bytes with its namespace \(orders/\). The maximum is 256"
    ):
        team.full(b"x" * 250)
