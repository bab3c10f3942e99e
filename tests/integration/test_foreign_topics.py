"""A topic of another system with another number of partitions: docs/how-to/mirror.py copies it into an input."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.harness.kafka import Requests, create_topic, ends, now_ms, read
from tests.harness.systems import SYSTEMS, countdown
from tests.harness.waiting import PROGRAM_S, eventually
from tests.harness.worker import ROOT
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation, users

SOURCE_PARTITIONS, RECORDS, KILLS, STEP = 3, 20_000, 5, 1_000
MIRROR = ROOT / "docs/how-to/mirror.py"


@pytest.fixture(scope="module")
def installation(run: Run, bootstrap: str) -> Iterator[Installation]:
    def before(app_id: str) -> None:
        create_topic(bootstrap, f"{app_id}-copied", PARTITIONS, message_timestamp_type="CreateTime")

    def env(app_id: str) -> dict[str, str]:
        return {"DELAY_INPUTS": f"{app_id}-copied=countdown"}

    with run("mirror", env=env, before=before) as made:
        yield made


@contextmanager
def started(
    installation: Installation, *words: str, source: str | None = None, target: str | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Have a source copied; what still runs in the end is killed."""
    env = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": installation.bootstrap}
    env |= {"DELAY_PARTITIONS": str(PARTITIONS), "DELAY_REPLICATION_FACTOR": "1"}
    names = (source or f"{installation.app_id}-source", target or f"{installation.app_id}-copied")
    command = [sys.executable, str(MIRROR), *names, *words]
    with subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_copy_that_is_killed_again_and_again_has_each_record_once_with_its_time(
    installation: Installation,
) -> None:
    source, copied = f"{installation.app_id}-source", f"{installation.app_id}-copied"
    to, asked_ms = installation.topic(4), now_ms() - 60_000
    create_topic(installation.bootstrap, source, SOURCE_PARTITIONS, message_timestamp_type="CreateTime")
    producer = Requests(installation.bootstrap, installation.app_id)

    for number in range(RECORDS):
        producer.send(*countdown(number, to, 0), topic=source, timestamp_ms=asked_ms + number)
    producer.flush()

    def more_than(count: int) -> bool:
        if sum(ends(installation.bootstrap, copied).values()) > count:
            return True
        return sum(1 for _ in read(installation.bootstrap, copied)) == RECORDS

    for kill in range(KILLS):  # at work, each time a bit further
        before = sum(ends(installation.bootstrap, copied).values())
        with started(installation):
            eventually(partial(more_than, before + kill * STEP), what="copies")
    with started(installation, "--once") as last:
        said, _ = last.communicate(timeout=PROGRAM_S)
    assert (last.returncode, "is copied to" in said) == (0, True)

    originals = {
        (one.key, one.value, one.timestamp_ms, str(one.headers)) for one in read(installation.bootstrap, source)
    }
    copies = list(read(installation.bootstrap, copied))
    assert len(copies) == len(originals) == RECORDS
    assert {(one.key, one.value, one.timestamp_ms, str(one.headers)) for one in copies} == originals

    deliveries = installation.wait_for(to, RECORDS, 60)
    places = {copy.source: copy for copy in copies}
    assert max(Counter(one.header("delay-source") for one in deliveries).values()) == 1
    for one in deliveries:
        expected = SYSTEMS["countdown"].delivery(places[one.header("delay-source")])
        assert (int(one.header("delay-due")), one.key, one.value, users(one.headers)) == expected


def test_a_copy_begins_where_another_systems_group_has_stopped(installation: Installation) -> None:
    bootstrap, source = installation.bootstrap, f"{installation.app_id}-taken"
    create_topic(bootstrap, source, 2)
    for number in range(20):
        installation.requests.send([], b"key", b"%d" % number, topic=source, partition=number % 2)
    installation.requests.flush()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{source}-group", "log_level": 0})
    consumer.commit(offsets=[TopicPartition(source, 0, 7), TopicPartition(source, 1, 10)], asynchronous=False)
    consumer.close()

    words = ("--from", f"{source}-group", "--once")
    for _ in range(2):  # the second time it continues by itself
        with started(installation, *words, source=source, target=f"{source}-copied") as process:
            process.communicate(timeout=PROGRAM_S)
        assert process.returncode == 0
    assert [record.value for record in read(bootstrap, f"{source}-copied")] == [b"14", b"16", b"18"]
