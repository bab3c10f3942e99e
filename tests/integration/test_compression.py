"""Producers compress as they like, and commit or abort their transactions."""

import pytest
from confluent_kafka import Producer

from tests.harness.kafka import Requests, now_ms
from tests.integration.installation import Installation


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_requests_are_read(codec: str, installation: Installation) -> None:
    to = installation.topic()
    requests = Requests(installation.bootstrap, installation.app_id, **{"compression.type": codec})
    for number in range(20):
        requests.send({"delay-to": to, "delay-after": "100"}, None, b"%d " % number * 100, partition=0)
    requests.flush()

    records = installation.wait_for(to, 20)
    assert [record.value for record in records] == [b"%d " % number * 100 for number in range(20)]


def test_a_small_compressed_batch_may_hold_more_than_a_changelog_batch_takes(installation: Installation) -> None:
    to = installation.topic()
    options = {"compression.type": "gzip", "linger.ms": 500, "batch.size": 8 << 20, "message.max.bytes": 8 << 20}
    requests = Requests(installation.bootstrap, installation.app_id, **options)
    value = bytes(20_000)
    for _ in range(300):
        requests.send({"delay-to": to, "delay-after": "100"}, None, value, partition=1)
    requests.flush()

    records = installation.wait_for(to, 300)
    assert [record.value for record in records] == [value] * 300


def test_many_large_messages_can_be_rescheduled_at_once(installation: Installation) -> None:
    to, value = installation.topic(), bytes(200_000)
    ids = [installation.new_id(home=2) for _ in range(20)]
    for id_ in ids:
        installation.requests.schedule(id_, now_ms() + 3_600_000, to, value)
    for id_ in ids:
        installation.requests.command("deliver-now", id_)
    installation.requests.flush()

    records = installation.wait_for(to, len(ids))
    assert [record.header("delay-id") for record in records] == ids


def test_requests_of_an_aborted_transaction_are_never_delivered(installation: Installation) -> None:
    to = installation.topic()
    options = {"bootstrap.servers": installation.bootstrap, "transactional.id": installation.app_id, "log_level": 0}
    producer = Producer(options)
    producer.init_transactions(30)
    for value, commits in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        headers = [("delay-to", to), ("delay-after", "100")]
        producer.produce(installation.requests.topic, value, partition=0, headers=headers)
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)

    assert [record.value for record in installation.wait_for(to, 1)] == [b"committed"]
