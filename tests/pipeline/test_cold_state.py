"""The parked messages after random records in random batches, compared with applying the records one by one."""

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
    """Return the parked messages after the records, applied in their order."""
    parked: dict[str, Message] = {}
    for record in records:
        id_, there = record["id"], parked.get(record["id"])
        last = record["order_ms"], record["source"]
        applies = there is not None and record["if_due_ms"] in (None, there.due_ms)
        match record["op"]:
            case "park":
                bound = [int(header["value"]) for header in record["headers"]]
                parked[id_] = Message(record["due_ms"], *last, record["value"], sum(bound) if bound else None)
            case "void":
                parked.pop(id_, None)
            case "cancel" if applies:
                del parked[id_]
            case "reschedule" | "deliver-now" if applies and there is not None:
                dues = [record["due_ms"], there.latest_ms, there.due_ms if record["op"] == "deliver-now" else None]
                due_ms = min(due for due in dues if due is not None)
                parked[id_] = Message(due_ms, *last, there.value, there.latest_ms)
        if id_ in parked:  # what comes back names the last record of its id, whatever that has done
            parked[id_].order_ms, parked[id_].source = last
    return parked


def made_up(chosen: random.Random, count: int) -> list[dict[str, Any]]:
    """Return random records of a few ids, some of them automatic."""
    records: list[dict[str, Any]] = []
    for offset in range(count):
        op = chosen.choice(["park", "park", "void", "cancel", "reschedule", "deliver-now"])
        source = f"requests-1-{offset}"
        earlier = [record for record in records if record["op"] == "park"]
        automatic = op == "park" and chosen.random() < 0.3
        known = [record["id"] for record in earlier if record["id"].startswith("requests")]
        id_ = source if automatic else chosen.choice(["a", "b", "c", *known[-2:]])
        if op == "park" and not automatic:
            id_ = chosen.choice("abc")
        record: dict[str, Any] = {
            "id": id_,
            "partition": 1,
            "offset": offset,
            "op": op,
            "due_ms": None if op in ("void", "cancel") else chosen.randrange(5),
            "if_due_ms": chosen.choice([None, None, chosen.randrange(5)]) if op not in ("park", "void") else None,
            "order_ms": 1_000 + offset,
            "source": source,
            "to": "there",
            "key": None,
            "value": b"%d" % offset if op == "park" else None,
            "headers": [],
        }
        if op == "park" and chosen.random() < 0.3:
            bound = {"delay-first": chosen.randrange(3), "delay-no-later": chosen.randrange(4)}
            record["headers"] = [{"key": name, "value": b"%d" % number} for name, number in bound.items()]
        records.append(record)
    return records


def frame(spark: SparkSession, records: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(records, to_arrow_schema(RECORDS)))


def nothing(spark: SparkSession) -> ColdState:
    return ColdState(none(spark, MESSAGES), none(spark, VOIDS))


def found(parked: ColdState) -> dict[str, Message]:
    rows = parked.live().collect()
    assert len({row.id for row in rows}) == len(rows), "two versions of one id"
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
def test_what_is_parked_is_what_the_records_say_one_after_the_other(spark: SparkSession, seed: int) -> None:
    """Two hundred worlds share each batch, and each has its own ids, because a job takes seconds."""
    chosen, worlds = random.Random(seed), 200  # noqa: S311 - it makes up records
    stories = [made_up(chosen, chosen.choice([1, 3, 8, 15])) for _ in range(worlds)]
    for number, story in enumerate(stories):
        for record in story:
            for name in ("id", "source"):  # automatic ids are their sources
                record[name] = f"{number}/{record[name]}"
    cut = chosen.random()
    first = [record for story in stories for record in story[: int(len(story) * cut)]]
    rest = [record for story in stories for record in story[int(len(story) * cut) :]]

    parked = nothing(spark)
    for batch in (first, rest):
        parked = parked.plus(parked.after(frame(spark, batch)))
        parked = ColdState(parked.messages.localCheckpoint(), parked.voids.localCheckpoint())

    expected: dict[str, Message] = {}
    for story in stories:
        expected |= one_by_one(story)
    assert found(parked) == expected


def test_what_does_not_look_back_reads_no_messages(spark: SparkSession) -> None:
    class Unreadable(ColdState):
        def _moved(self, rows: DataFrame, ids: DataFrame) -> ColdState:
            assert not rows.collect()
            assert not ids.collect()
            return nothing(spark)

    there = nothing(spark)
    unreadable = Unreadable(there.messages, there.voids)
    story = [record for record in made_up(random.Random(5), 30) if record["op"] in ("park", "void")]  # noqa: S311
    assert found(unreadable.after(frame(spark, story))) == one_by_one(story)
