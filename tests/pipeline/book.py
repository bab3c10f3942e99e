"""A ledger as a test wants it, written without Kafka."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.lake import Lake
from pipeline.ledger import KIND
from pipeline.ledger.progress import ReportedProgress, Snapshot, positions
from pipeline.ledger.tables import EVENT_TABLES, FORWARDED, REQUESTS, RESCUED, TOLD_ENDINGS

REQUESTS_TOPIC, FORWARDS_TOPIC = "p-requests", "p-forwards"
NOW_MS = 1_900_000_000_000
_RUN = "run"
MINUTE_MS = 60_000
SCHEMAS: Mapping[str, StructType] = {
    **EVENT_TABLES,
    "requests": REQUESTS,
    "rescued": RESCUED,
    "forwarded": FORWARDED,
}


class Book:
    """Rows of a ledger of an installation with four partitions, whose workers have read 100 requests of each."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.told = {number: told() for number in range(4)}
        self.unsure: list[int] = []

    def event(self, event: str, source: str, id_: str = "", partition: int = 0, **more: Any) -> str:
        """Add an event; return the source."""
        columns = {"at_ms": NOW_MS - 30 * MINUTE_MS, "due_ms": NOW_MS - 10 * MINUTE_MS, "to": "orders", **more}
        table = "outcomes" if event in TOLD_ENDINGS else event if event in EVENT_TABLES else "others"
        rows = self.rows.setdefault(table, [])
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
        added = {}
        for table, rows in self.rows.items():
            types = to_arrow_schema(SCHEMAS[table])
            whole = [{name: ({"run": _RUN} | row).get(name) for name in types.names} for row in rows]
            added[table] = spark.createDataFrame(pa.Table.from_pylist(whole, types))
        read = positions(self.told, [REQUESTS_TOPIC])
        snapshot = Snapshot(self.told, read, self.unsure, (REQUESTS_TOPIC,), 4)
        lake = Lake(spark, str(root), KIND, "p")
        lake.commit(added, notes={"snapshot": snapshot.note(), "forwarded": _RUN})
        return lake


def told(fired_to: int = NOW_MS, read: int = 100, pending: int = 0) -> ReportedProgress:
    """Return a partition's last word."""
    return ReportedProgress(NOW_MS, fired_to, {REQUESTS_TOPIC: read, FORWARDS_TOPIC: 10}, pending, {})
