"""Messages of Kafka's maximum size are held, forwarded and delivered, or refused with a reason."""

import os

import pytest
from confluent_kafka import Producer

from tests.harness.case import Case
from tests.harness.kafka import Record, create_topic, now_ms, read
from tests.harness.waiting import LIMIT_S, ask_until, crowd, eventually

pytestmark = pytest.mark.slow

LIMIT = 1_048_588
#: Bytes that no codec makes smaller.
NOISE = os.urandom(2 * LIMIT)


def largest(case: Case, headers: dict[str, str]) -> bytes:
    """Return the largest value that a topic with Kafka's usual limit takes in a record with these headers."""
    topic = create_topic(case.bootstrap, f"{case.app_id}-scales", 1)
    scales = Producer({"bootstrap.servers": case.bootstrap, "message.max.bytes": 4 * LIMIT, "log_level": 0})
    low, high = LIMIT - 1_000, LIMIT
    while high - low > 1:
        middle = (low + high) // 2
        errors: list[object] = []
        scales.produce(topic, NOISE[:middle], headers=headers, on_delivery=lambda error, _, to=errors: to.append(error))
        assert not scales.flush(LIMIT_S), "Kafka doesn't answer"
        low, high = (middle, high) if errors[0] is None else (low, middle)
    return NOISE[:low]


def dead_letters(case: Case) -> dict[str, Record]:
    """Return the dead letters by their reason."""
    return {record.header("delay-reason"): record for record in read(case.bootstrap, f"{case.app_id}-dead-letters")}


@pytest.mark.parametrize("way", ["home", "foreign"])
def test_the_largest_request_is_delivered_to_a_topic_that_takes_it(way: str, case: Case) -> None:
    roomy = create_topic(case.bootstrap, f"{case.app_id}-roomy", 1, max_message_bytes=str(2 * LIMIT))
    headers = {"delay-id": "largest", "delay-at": str(now_ms() + int(4_000 * crowd())), "delay-to": roomy}
    value = largest(case, headers)
    big = {"message.max.bytes": 2 * LIMIT}
    with case.worker() as worker:
        worker.start().wait_ready()
        case.requests = case.requests_with(**big)
        partition = case.home("largest") if way == "home" else case.foreign("largest")
        case.requests.send(headers, value=value, partition=partition)
        case.requests.send({**headers, "delay-id": "tight", "delay-to": case.out}, value=value[8:], partition=partition)
        case.requests.flush()
        eventually(lambda: list(read(case.bootstrap, roomy)), what="the delivery")
        account = case.settled()
        assert [record.value for record in read(case.bootstrap, roomy)] == [value]
        assert account.endings("largest") == ["delivered"]
        assert account.endings("tight") == ["rejected"]
        letters = ask_until(lambda: dead_letters(case), lambda found: "too-large" in found, "the dead letter")
        assert letters["too-large"].value == value[8:]


@pytest.mark.parametrize("way", ["home", "foreign"])
@pytest.mark.parametrize("part", ["key", "value", "header"])
def test_a_request_that_is_larger_unpacked_than_anything_takes_is_refused(part: str, way: str, case: Case) -> None:
    huge = b"." * (6 * LIMIT)
    key, value = huge if part == "key" else b"key", huge if part == "value" else b"value"
    headers: list[tuple[str, bytes | str]] = [("user", huge)] if part == "header" else []
    headers += [("delay-id", "huge"), ("delay-at", str(now_ms() + 500)), ("delay-to", case.out)]
    with case.worker() as worker:
        worker.start().wait_ready()
        case.requests = case.requests_with(**{"message.max.bytes": 8 * LIMIT, "compression.type": "zstd"})
        partition = case.home("huge") if way == "home" else case.foreign("huge")
        case.requests.send(headers, key, value, partition=partition)
        case.requests.flush()
        case.schedule("neighbour", now_ms() + 1_000, partition=partition)
        case.requests.flush()
        case.wait_delivered({"neighbour"})
        assert worker.alive
        assert case.deliveries().ids == {"neighbour"}
        letters = ask_until(lambda: dead_letters(case), lambda found: "too-large" in found, "the dead letter")
        assert letters["too-large"].value is None
