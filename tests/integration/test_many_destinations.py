"""More destinations than reports have room for, while workers come and go: reports are complete, delivery goes on.

MANY_PARTITIONS and MANY_DESTINATIONS (16 and 300) say how many; 64 and 1000 is the full form.
"""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tables import keys
from tables.entry import Entry, encode
from tests.harness.kafka import now_ms, read
from tests.harness.pace import Stopwatch
from tests.harness.waiting import LIMIT_S, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import Event, Installation, late_ms

PARTITIONS = int(os.environ.get("MANY_PARTITIONS", "16"))
DESTINATIONS = int(os.environ.get("MANY_DESTINATIONS", "300"))
NAMES = [f"{'long-' * 47}{number:06d}" for number in range(DESTINATIONS)]
#: Pending messages of each destination in each partition.
WAITING = {name: 1 + number % 5 for number, name in enumerate(NAMES)}
#: The cost of a rebalance on a busy machine; a catch-up would wait two minutes for a report.
PAUSE_MS = 15_000
#: Maximum size of a record, and of the worker's memory.
RECORD_BYTES, MEMORY_KIB = 20_000, 600 << 10


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    """An installation with messages for very many destinations: in its changelog, for their topics take minutes."""
    with run("many", partitions=PARTITIONS, balanced=False) as made:
        made.worker.stop()
        fill(made)
        made.worker.start().wait_ready()
        yield made


def fill(installation: Installation) -> None:
    """Write the rows as a worker would have."""
    producer = Producer({"bootstrap.servers": installation.bootstrap, "linger.ms": 50})
    due, crc = now_ms() + 86_400_000, keys.topic_crc(installation.requests.topic)
    for number in range(PARTITIONS):
        offset = 1 << 40
        for name, many in WAITING.items():
            for _ in range(many):
                offset += 1
                id_ = f"{installation.requests.topic}-{number}-{offset}"
                row = encode(Entry(id_, name, None, b"", [], id_))
                producer.produce(
                    f"{installation.app_id}-delays-changelog", row, keys.row_key(due, offset, crc), partition=number
                )
            producer.poll(0)
        producer.flush()  # or its queue gets full


def complete(installation: Installation, since_ms: int) -> bool:
    """Whether each partition has reported all of its messages since then."""
    records = [
        record
        for record in read(installation.bootstrap, f"{installation.app_id}-progress")
        if record.timestamp_ms >= since_ms
    ]
    assert all(len(record.value or b"") < RECORD_BYTES for record in records)
    reports: dict[int, Event] = {int(record.key or b""): json.loads(record.value or b"") for record in records}
    sums = {
        number: sum(report["pending"].values()) + report.get("pending_rest", {}).get("messages", 0)
        for number, report in reports.items()
        if "state" not in report
    }
    return all(sums.get(number, 0) >= sum(WAITING.values()) for number in range(PARTITIONS))


def memory_kib(worker: Worker) -> int:
    """Return a worker's peak memory so far."""
    status = Path(f"/proc/{worker.pid}/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])


def test_reports_are_complete_and_delivery_goes_on_when_workers_join_and_leave(
    installation: Installation, tmp_path: Path
) -> None:
    to, first = installation.topic(), installation.worker
    eventually(lambda: complete(installation, now_ms() - 3_000), what="complete reports")
    for number in range(300):  # ten a second, from partitions of both workers
        headers = {"delay-to": to, "delay-at": str(now_ms() + 100 * number)}
        installation.requests.send(headers, b"%d" % number, b"", partition=number % PARTITIONS)
    installation.requests.flush()
    with Worker(installation.bootstrap, installation.app_id, tmp_path / "second", partitions=PARTITIONS) as second:
        joined = now_ms()
        second.start().wait_ready()
        await_sharing(first, second)
        eventually(lambda: complete(installation, joined), what="complete reports of two workers")
        assert memory_kib(second) < MEMORY_KIB
        left = now_ms()
        second.stop()
    eventually(lambda: complete(installation, left), what="complete reports after one has left")
    records = installation.wait_for(to, 300, 60)
    assert max(late_ms(record) for record in records) < PAUSE_MS, sorted(late_ms(record) for record in records)[-20:]
    assert memory_kib(first) < MEMORY_KIB


def test_all_destinations_are_listed_by_the_worker_that_has_the_partition(installation: Installation) -> None:
    url = f"{installation.worker.url}/api/v1/partitions/0/destinations"
    with Stopwatch() as watch, urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
        found = {row["destination"]: row["pending"] for row in json.load(answer)["destinations"]}
    assert watch.seconds < 2

    assert {name: found[name] for name in NAMES} == WAITING
