"""The worker reads the client's records: each side's own code, without Kafka in between."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from punctual import DelayOptions
from punctual.client import requests
from punctual.contract import native
from punctual.contract.request import Request

WRITTEN_MS = 1_800_000_000_000
DUE = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Record:
    """A request as Kafka hands it to the worker."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    topic: str = "delay-requests"
    partition: int = 3
    offset: int = 1042
    timestamp: int = WRITTEN_MS


def read(request: requests.Request) -> Request:
    return native.decode(Record(request.key, request.value, list(request.headers)))


def test_the_worker_reads_every_option_that_the_client_writes() -> None:
    found = read(
        requests.schedule(
            "orders",
            b"\x00\xff",
            at=DUE,
            key="k",
            headers=[("b", b"\xff"), ("a", None), ("b", b"")],
            id="r-1",
            to_partition=3,
            to_cluster="eu",
            max_late=timedelta(minutes=1),
            if_late="drop",
            dedupe=timedelta(hours=1),
            on_failure="https://shop.example/failed",
        )
    )

    assert (found.op, found.id, found.to, found.key, found.value) == ("schedule", "r-1", "orders", b"k", b"\x00\xff")
    assert found.due_ms == 1_893_456_000_000
    assert list(found.headers) == [("b", b"\xff"), ("a", None), ("b", b"")]
    assert (found.partition, found.cluster) == (3, "eu")
    assert (found.max_late_ms, found.if_late, found.dedupe_ms) == (60_000, "drop", 3_600_000)
    assert found.on_failure == "https://shop.example/failed"


def test_the_worker_counts_a_delay_from_when_kafka_had_the_request() -> None:
    assert read(requests.schedule("orders", b"", after=timedelta(seconds=1.5))).due_ms == WRITTEN_MS + 1500


def test_without_an_id_the_worker_and_the_client_use_the_same_one() -> None:
    assert read(requests.schedule("orders", b"", after=timedelta(0))).id == "delay-requests-3-1042"


@pytest.mark.parametrize("operation", ["cancel", "deliver-now"])
def test_the_worker_reads_the_commands(operation: requests.Operation) -> None:
    found = read(requests.command(operation, "r-1", if_due=DUE, asked_at=DUE))

    assert (found.op, found.id) == (operation, "r-1")
    assert (found.if_due_ms, found.asked_at_ms) == (1_893_456_000_000, 1_893_456_000_000)


def test_the_worker_reads_the_new_due_time() -> None:
    assert read(requests.command("reschedule", "r-1", at=DUE)).due_ms == 1_893_456_000_000
    assert read(requests.command("reschedule", "r-1", after=timedelta(seconds=9))).due_ms == WRITTEN_MS + 9000


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        ({"to_partition": 3}, "partition", 3),
        ({"to_cluster": "eu"}, "cluster", "eu"),
        ({"max_late": timedelta(seconds=1)}, "max_late_ms", 1000),
        ({"dedupe": timedelta(seconds=1)}, "dedupe_ms", 1000),
        ({"on_failure": "http://shop.example/"}, "on_failure", "http://shop.example/"),
        ({"asked_at": DUE}, "asked_at_ms", 1_893_456_000_000),
    ],
)
def test_each_option_counts_without_any_other(option: DelayOptions, field: str, value: object) -> None:
    options: DelayOptions = {"after": timedelta(0), **option}

    assert getattr(read(requests.schedule("orders", b"", **options)), field) == value
