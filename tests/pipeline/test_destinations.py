"""`reconcile --destination`: each delivery in the ledger is one record of its destination, as it was requested."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.context import JobContext
from pipeline.kafka import Kafka
from pipeline.reconcile.destinations import deviations
from tests.harness.kafka import now_ms
from tests.pipeline.conftest import Produce
from tests.pipeline.ledger_builder import MINUTE_MS, NOW_MS, REQUESTS_TOPIC, LedgerBuilder

DUE_MS = NOW_MS - 600_000


def test_lost_doubled_altered_and_foreign_records_are_reported(
    spark: SparkSession, bootstrap: str, produce: Produce, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, ledger = new_topic(), LedgerBuilder()
    context = JobContext(spark, Kafka(bootstrap), "p")

    def delivered(number: int, offset: int, id_: str | None = None) -> str:
        source = f"{REQUESTS_TOPIC}-0-{number}"
        accepted = ledger.event("accepted", source, id_ or f"id-{number}", to=topic)
        ledger.event(
            "delivered", accepted, id_ or f"id-{number}", to=topic, due_ms=DUE_MS, delivered=f"{topic}-0-{offset}"
        )
        return source

    def record(source: str | None, id_: str, value: bytes = b"v", due_ms: int = DUE_MS) -> None:
        headers = [("delay-id", id_.encode()), ("delay-due", b"%d" % due_ms)]
        headers += [("delay-source", source.encode())] if source else []
        # The record is a minute old, so that the ledger has read it.
        produce(topic, value, headers=headers, partition=0, timestamp=now_ms() - MINUTE_MS)

    for number in range(8):
        ledger.request(0, number)
        ledger.rows["requests"][-1]["value"] = b"v"
    record(delivered(0, 0), "id-0")
    record(delivered(1, 1), "id-1")
    record(f"{REQUESTS_TOPIC}-0-1", "id-1")  # The record is there twice.
    record(delivered(2, 3), "id-2", due_ms=DUE_MS + 1)
    record(delivered(3, 4), "id-3", b"another")
    record(delivered(4, 5), f"id-4@{DUE_MS}")  # An occurrence of a recurring message has such an id.
    record(f"{REQUESTS_TOPIC}-0-99", "id-99")
    record(None, "of another producer")
    delivered(5, 8)
    delivered(6, 7)  # The record at this offset belongs to another producer.

    rows = deviations(context, ledger.lake(spark, tmp_path), topic).collect()

    assert {(row["kind"], row["delivered"].rsplit("-", 1)[1], row["id"]) for row in rows} == {
        ("doubled", "2", "id-1"),
        ("altered", "3", "id-2"),
        ("altered", "4", "id-3"),
        ("foreign", "6", "id-99"),
        ("lost", "8", "id-5"),
        ("lost", "7", "id-6"),
    }
