"""Producers compress as they like, and commit or abort their transactions."""

import asyncio
from pathlib import Path

import pytest
from aiokafka.codec import gzip_encode, lz4_encode, zstd_encode
from confluent_kafka import Producer

from tests.harness.kafka import Requests, now_ms, read
from tests.harness.raw import PackedBatch, record_of, send_batches
from tests.harness.waiting import LIMIT_S, eventually
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation

pytestmark = pytest.mark.core

#: Packers by codec number. Snappy is missing: 40 MB of zeros do not fit into a snappy batch.
_PACKED = {1: gzip_encode, 3: lz4_encode, 4: zstd_encode}


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
    producer.init_transactions(LIMIT_S)
    for value, commits in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        headers = [("delay-to", to), ("delay-after", "100")]
        producer.produce(installation.requests.topic, value, partition=0, headers=headers)
        assert producer.flush(LIMIT_S) == 0
        producer.commit_transaction(LIMIT_S) if commits else producer.abort_transaction(LIMIT_S)

    assert [record.value for record in installation.wait_for(to, 1)] == [b"committed"]


def test_a_batch_that_unpacks_to_too_much_is_passed_over_with_one_dead_letter(run: Run) -> None:
    zeros, empties = bytes(40 << 20), b"".join(record_of(number, None) for number in range(100_001))
    bombs = [PackedBatch(bytes(pack(record_of(0, zeros))), 1, codec) for codec, pack in _PACKED.items()]
    bombs.append(PackedBatch(bytes(zstd_encode(empties)), 100_001, 4))
    bombs.append(PackedBatch(bytes(zstd_encode(record_of(0, None, 2_500_000))), 1, 4))
    bombs.append(PackedBatch(record_of(0, None, 300_000), 1, 0))
    with run("bombs", balanced=False) as installation:
        to, topic = installation.topic(), installation.requests.topic
        delivered = 0
        for bomb in bombs:
            for partition in range(PARTITIONS):
                installation.requests.send({"delay-to": to, "delay-after": "0"}, partition=partition)
                delivered += 1
            installation.requests.flush()
            asyncio.run(send_batches(installation.bootstrap, topic, 1, bomb))
        letters = installation.letters(len(bombs))

        assert {letter.header("delay-reason") for letter in letters} == {"too-large"}
        assert sum(f"of {topic}-1 was skipped" in letter.header("delay-error") for letter in letters) == len(letters)
        assert sum("100,001 records, more than 100,000" in letter.header("delay-error") for letter in letters) == 1
        assert len(installation.wait_for(to, delivered)) == delivered
        assert peak_mib(installation.worker.pid) < 500
        installation.worker.kill()
        installation.worker.start().wait_ready()
        installation.requests.send({"delay-to": to, "delay-after": "0"}, b"afterwards", partition=1)
        installation.requests.flush()
        # Messages delivered before may come twice.
        eventually(lambda: any(one.key == b"afterwards" for one in read(installation.bootstrap, to)), what="the last")


def peak_mib(pid: int) -> float:
    """Return the peak memory of a process."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text("utf-8").split("\n") if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
