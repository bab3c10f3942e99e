"""After random records in two batches, the parked messages are the same as if records were applied one by one."""

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.cold.records import RECORDS
from pipeline.cold.state import MESSAGES, VOIDS, ColdState
from pipeline.lake import none


@dataclass
class Message:
    due_ms: int
    order_ms: int
    source: str
    value: bytes
    latest_ms: int | None = None


def one_by_one(records: list[dict[str, Any]]) -> dict[str, Message]:
    """Return the parked messages after the records, which are applied in their order."""
    parked: dict[str, Message] = {}
    for record in records:
        id_, message = record["id"], parked.get(record["id"])
        last_command = record["order_ms"], record["source"]
        applies = message is not None and record["if_due_ms"] in (None, message.due_ms)
        match record["op"]:
            case "park":
                bounds = [int(header["value"]) for header in record["headers"]]
                parked[id_] = Message(record["due_ms"], *last_command, record["value"], sum(bounds) if bounds else None)
            case "void":
                parked.pop(id_, None)
            case "cancel" if applies:
                del parked[id_]
            case "reschedule" | "deliver-now" if applies and message is not None:
                due_times_ms = [
                    record["due_ms"],
                    message.latest_ms,
                    message.due_ms if record["op"] == "deliver-now" else None,
                ]
                due_ms = min(time_ms for time_ms in due_times_ms if time_ms is not None)
                parked[id_] = Message(due_ms, *last_command, message.value, message.latest_ms)
        if id_ in parked:  # A promoted message names the last record of its id, even if this record changed nothing.
            parked[id_].order_ms, parked[id_].source = last_command
    return parked


def random_records(generator: random.Random, count: int) -> list[dict[str, Any]]:
    """Return random records of a few ids, among them automatic ids."""
    records: list[dict[str, Any]] = []
    for offset in range(count):
        op = generator.choice(["park", "park", "void", "cancel", "reschedule", "deliver-now"])
        source = f"requests-1-{offset}"
        earlier = [record for record in records if record["op"] == "park"]
        automatic = op == "park" and generator.random() < 0.3
        automatic_ids = [record["id"] for record in earlier if record["id"].startswith("requests")]
        id_ = source if automatic else generator.choice(["a", "b", "c", *automatic_ids[-2:]])
        if op == "park" and not automatic:
            id_ = generator.choice("abc")
        record: dict[str, Any] = {
            "id": id_,
            "partition": 1,
            "offset": offset,
            "op": op,
            "due_ms": None if op in ("void", "cancel") else generator.randrange(5),
            "if_due_ms": generator.choice([None, None, generator.randrange(5)]) if op not in ("park", "void") else None,
            "order_ms": 1_000 + offset,
            "source": source,
            "to": "there",
            "key": None,
            "value": b"%d" % offset if op == "park" else None,
            "headers": [],
        }
        if op == "park" and generator.random() < 0.3:
            bounds = {"delay-first": generator.randrange(3), "delay-no-later": generator.randrange(4)}
            record["headers"] = [{"key": name, "value": b"%d" % number} for name, number in bounds.items()]
        records.append(record)
    return records


_GROUPS = 200


def frame(spark: SparkSession, records: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(records, to_arrow_schema(RECORDS)))


def empty_state(spark: SparkSession) -> ColdState:
    return ColdState(none(spark, MESSAGES), none(spark, VOIDS))


def parked_messages(parked: ColdState) -> dict[str, Message]:
    rows = parked.live().collect()
    assert len({row.id for row in rows}) == len(rows), "an id has two versions"
    return {
        row.id: Message(
            row.due_ms,
            row.order_ms,
            row.source,
            bytes(row.value),
            sum(int(header.value) for header in row.headers) if row.headers else None,
        )
        for row in rows
    }


@pytest.mark.parametrize("seed", range(2))
def test_records_in_batches_park_the_same_messages_as_records_one_by_one(spark: SparkSession, seed: int) -> None:
    """Each batch has two hundred groups of records with their own ids, because each job takes seconds."""
    generator = random.Random(seed)  # noqa: S311 - it makes random records
    groups = [random_records(generator, generator.choice([1, 3, 8, 15])) for _ in range(_GROUPS)]
    for number, records in enumerate(groups):
        for record in records:
            for name in ("id", "source"):  # An automatic id is the source of its record.
                record[name] = f"{number}/{record[name]}"
    share = generator.random()
    first = [record for records in groups for record in records[: int(len(records) * share)]]
    rest = [record for records in groups for record in records[int(len(records) * share) :]]

    parked = empty_state(spark)
    for batch in (first, rest):
        parked = parked.plus(parked.after(frame(spark, batch)))
        parked = ColdState(parked.messages.localCheckpoint(), parked.voids.localCheckpoint())

    expected: dict[str, Message] = {}
    for records in groups:
        expected |= one_by_one(records)
    assert parked_messages(parked) == expected


def test_records_that_need_no_earlier_message_are_applied_without_reading_messages(spark: SparkSession) -> None:
    class UnreadableState(ColdState):
        def _moved(self, rows: DataFrame, ids: DataFrame) -> ColdState:
            assert not rows.collect()
            assert not ids.collect()
            return empty_state(spark)

    empty = empty_state(spark)
    state = UnreadableState(empty.messages, empty.voids)
    records = [record for record in random_records(random.Random(5), 30) if record["op"] in ("park", "void")]  # noqa: S311
    assert parked_messages(state.after(frame(spark, records))) == one_by_one(records)
