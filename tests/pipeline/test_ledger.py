"""The ledger counts each message once."""

import json
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.columns import source_text
from pipeline.context import JobContext
from pipeline.jobs.ledger import compact
from pipeline.kafka import Kafka, Offsets
from pipeline.lake import Lake
from pipeline.ledger import KIND, lives, pending
from pipeline.ledger.intake import take_in
from pipeline.ledger.lateness import histogram
from pipeline.ledger.tables import EVENT_TABLES, OUTCOMES, REQUESTS
from pipeline.reconcile.lost import Judge
from tests.harness.waiting import LIMIT_S
from tests.pipeline.conftest import Produce
from tests.pipeline.topic_writer import HOUR_MS, NOW_MS, TopicWriter

ROOT = Path(__file__).parents[2]


@pytest.fixture
def topics(context: JobContext, produce: Produce) -> TopicWriter:
    return TopicWriter(context, produce)


@pytest.fixture
def ledger(context: JobContext, tmp_path: Path) -> Lake:
    return context.lake(str(tmp_path / "ledger"), KIND)


def test_a_message_is_counted_once_although_its_events_are_repeated(
    context: JobContext, topics: TopicWriter, ledger: Lake, bootstrap: str
) -> None:
    delivered, cancelled_late, pending_message, rescheduled = (topics.request() for _ in range(4))
    topics.life(delivered)
    topics.event("accepted", cancelled_late)
    topics.event("delivered", cancelled_late, late=7, delivered="orders-0-1000")
    topics.event("cancelled", cancelled_late, by=delivered)  # A worker crashed while the delivery was in flight.
    topics.event("accepted", pending_message, due=NOW_MS + HOUR_MS)
    topics.event("accepted", rescheduled)
    topics.event("rescheduled", rescheduled, due=NOW_MS + 2 * HOUR_MS, by=pending_message)
    topics.append("events", b"\xff no event", 0)
    _abort(bootstrap, context.topic("events"), "cancelled", pending_message)
    assert take_in(context, ledger)["accepted"] == 4

    topics.life(delivered)  # A later run reads the same events again.
    topics.event("delivered", delivered, late=5, delivered="orders-0-1001")
    counts = take_in(context, ledger)
    assert counts == {"requests": 0, "accepted": 1, "delivered": 2}

    lives_by_source = {
        row["source"]: row for row in lives(ledger).withColumn("source", source_text(F.col("life"))).collect()
    }
    assert {name: row["ending"] for name, row in lives_by_source.items()} == {
        delivered: "delivered",
        cancelled_late: "delivered",
        pending_message: None,
        rescheduled: None,
    }
    assert [name for name, row in lives_by_source.items() if row["several"]] == [delivered]
    pending_by_source = {row["source"]: row for row in pending(ledger).collect()}
    assert {name: row["due_ms"] for name, row in pending_by_source.items()} == {
        pending_message: NOW_MS + HOUR_MS,
        rescheduled: NOW_MS + 2 * HOUR_MS,
    }
    assert pending_by_source[rescheduled]["partition"] == topics.home(rescheduled)
    assert sum(row["count"] for row in histogram(ledger.read("outcomes", OUTCOMES)).collect()) == 2

    before = _rows(ledger)
    compact(ledger)
    assert _rows(ledger) == before
    ledger.vacuum(0)
    files = Counter(file.parent for file in Path(ledger.root).glob("kind=*/day=*/*.parquet"))
    assert set(files.values()) == {1}, "each kind and day has one file"


def test_a_message_that_is_written_during_a_run_does_not_count_as_lost(
    context: JobContext, topics: TopicWriter, ledger: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_message() -> None:
        topics.life(topics.request(due_ms=NOW_MS - HOUR_MS), due=NOW_MS - HOUR_MS)
        topics.progress()

    ends = Kafka.ends

    def ends_before_new_records(kafka: Kafka, spark: SparkSession, *topics: str, **options: Any) -> dict[str, Offsets]:
        offsets = ends(kafka, spark, *topics, **options)
        write_message()
        return offsets

    write_message()
    monkeypatch.setattr(Kafka, "ends", ends_before_new_records)
    assert take_in(context, ledger)["accepted"] > 1
    monkeypatch.undo()
    assert Judge(ledger).lost().collect() == []


def _abort(bootstrap: str, topic: str, event: str, source: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"abort-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, json.dumps({"event": event, "id": source, "source": source, "at": NOW_MS, "to": "orders"}))
    producer.flush(LIMIT_S)
    producer.abort_transaction(30)


def _rows(lake: Lake) -> dict[str, int]:
    """Return the number of rows of each table, in one query."""
    tables = {"requests": REQUESTS, **EVENT_TABLES}.items()
    labels = reduce(DataFrame.unionAll, (lake.read(table, columns).select(F.lit(table)) for table, columns in tables))
    return {row[0]: row["count"] for row in labels.groupBy(labels[0]).count().collect()}
