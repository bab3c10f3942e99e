"""Messages from one request partition to one destination partition are delivered in order of (due, arrival)."""

import random

import pytest

from tests.harness.kafka import Record, now_ms, read
from tests.harness.waiting import crowd
from tests.integration.installation import PARTITIONS, Installation

pytestmark = pytest.mark.core

MESSAGES, RESCHEDULED = 3_000, 400


def wanted(requests: list[Record], partition: int) -> list[str]:
    """Return the ids of a request partition as they are promised: by due time, then by what set the due time."""
    keys: dict[str, tuple[int, int]] = {}
    for record in requests:
        if record.partition == partition:
            keys[record.header("delay-id")] = (int(record.header("delay-at")), record.offset)
    return sorted(keys, key=keys.__getitem__)


def test_messages_come_by_due_time_and_then_by_arrival(installation: Installation) -> None:
    rnd = random.Random(7)  # noqa: S311 - any order will do
    to, first = installation.topic(), now_ms() + int(5_000 * crowd())
    ids = [installation.new_id(home=number % PARTITIONS) for number in range(MESSAGES)]
    # Few due times, so that many are equal.
    for number, id_ in enumerate(ids):
        due = first + 20 * rnd.randrange(25)
        installation.requests.schedule(id_, due, to, key=b"%d" % number, partition=number % PARTITIONS)
    for number in rnd.sample(range(MESSAGES), RESCHEDULED):
        due = first + 20 * rnd.randrange(25)
        installation.requests.reschedule(ids[number], due, partition=number % PARTITIONS)
    installation.requests.flush()

    delivered = installation.wait_for(to, MESSAGES)
    requests = list(read(installation.bootstrap, installation.requests.topic))
    home = {record.header("delay-id"): record.partition for record in requests}
    assert len(delivered) == MESSAGES
    for partition in range(PARTITIONS):
        found = [record.header("delay-id") for record in delivered if home[record.header("delay-id")] == partition]
        assert found == wanted(requests, partition)


def test_order_holds_across_destination_partitions_of_a_keyed_topic(installation: Installation) -> None:
    to, due = installation.topic(3), now_ms() + 1_000
    for number in range(1_000):
        headers = {"delay-to": to, "delay-at": str(due)}
        installation.requests.send(headers, b"%d" % (number % 30), b"%d" % number, partition=1)
    installation.requests.flush()

    by_partition: dict[int, list[int]] = {}
    for record in installation.wait_for(to, 1_000):
        by_partition.setdefault(record.partition, []).append(int(record.value or b""))
    assert len(by_partition) == 3
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


def test_overdue_messages_are_delivered_in_the_order_of_arrival_too(installation: Installation) -> None:
    to = installation.topic()
    for number in range(500):
        installation.requests.send({"delay-to": to, "delay-at": "0"}, None, b"%d" % number, partition=2)
    installation.requests.flush()

    values = [int(record.value or b"") for record in installation.wait_for(to, 500)]
    assert values == list(range(500))
