"""Writes a ledger with the rows of a test, without Spark and without Kafka."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.lake import Commit, Lake
from pipeline.ledger import KIND
from pipeline.ledger.progress import ReportedProgress, Snapshot, positions
from pipeline.ledger.tables import EVENT_TABLES, FORWARDED, LATENESS, REQUESTS, RESCUED, table_of

REQUESTS_TOPIC, FORWARDS_TOPIC = "p-requests", "p-forwards"
NOW_MS = 1_900_000_000_000
MINUTE_MS = 60_000
SCHEMAS: Mapping[str, StructType] = {
    **EVENT_TABLES,
    "requests": REQUESTS,
    "rescued": RESCUED,
    "forwarded": FORWARDED,
    "lateness": LATENESS,
}


class Book:
    """The rows of a ledger: four partitions, of which workers have read 100 requests each."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.told = {number: told() for number in range(4)}
        self.unsure: list[int] = []

    def event(self, event: str, source: str, id_: str = "", partition: int = 0, **more: Any) -> str:
        """Add an event; return the source."""
        columns = {"at_ms": NOW_MS - 30 * MINUTE_MS, "due_ms": NOW_MS - 10 * MINUTE_MS, "to": "orders", **more}
        rows = self.rows.setdefault(table_of(event), [])
        row = {"event": event, "source": source, "id": id_ or source, "partition": partition, "offset": len(rows)}
        rows.append(row | columns)
        return source

    def request(self, partition: int, offset: int, id_: str | None = None, op: str = "schedule") -> str:
        """Add a request; return the source."""
        row = {"topic": REQUESTS_TOPIC, "partition": partition, "offset": offset, "op": op, "id": id_, "to": "orders"}
        self.rows.setdefault("requests", []).append(row | {"stamp_ms": NOW_MS - 30 * MINUTE_MS, "at": str(NOW_MS)})
        return f"{REQUESTS_TOPIC}-{partition}-{offset}"

    def add(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        self.rows.setdefault(table, []).append(row)

    def lake(self, spark: SparkSession, root: Path) -> Lake:
        """Return the ledger, as one commit."""
        for table, rows in self.rows.items():
            (root / table / "1").mkdir(parents=True)
            schema = to_arrow_schema(SCHEMAS[table])
            whole = [{name: row.get(name) for name in schema.names} for row in rows]
            pq.write_table(pa.Table.from_pylist(whole, schema), root / table / "1" / "rows.parquet")
        read = positions(self.told, [REQUESTS_TOPIC])
        snapshot = Snapshot(self.told, read, self.unsure, (REQUESTS_TOPIC,), 4)
        tables = {table: [f"{table}/1"] for table in self.rows}
        commit = Commit(1, KIND, "p", NOW_MS, tables=tables, notes={"snapshot": snapshot.note()})
        (root / "commits").mkdir()
        (root / "commits" / "000000000001.json").write_text(json.dumps(asdict(commit)), "utf-8")
        return Lake(spark, str(root), KIND, "p")


def told(fired_to: int = NOW_MS, read: int = 100, pending: int = 0) -> ReportedProgress:
    """Return a partition's last progress report."""
    return ReportedProgress(NOW_MS, fired_to, {REQUESTS_TOPIC: read, FORWARDS_TOPIC: 10}, pending, {})
