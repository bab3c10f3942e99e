"""Builds a ledger from rows that a test gives, without Kafka."""

import itertools
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
from pipeline.ledger.tables import EVENT_ENDINGS, EVENT_TABLES, FORWARDED, REQUESTS, RESCUED

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


class LedgerBuilder:
    """Collects the rows of a ledger; `reports` are the progress reports of its four partitions.

    By default, workers have read 100 requests of each partition, and have fired all messages due up to `NOW_MS`.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.reports = {number: progress_report() for number in range(4)}
        self.unsure: list[int] = []
        self._offset = itertools.count()
        self._positions: dict[int, int] = {}

    def event(self, event: str, source: str, id_: str = "", partition: int = 0, **columns: Any) -> str:
        """Add an event about the message from `source`, whose id is `source` by default; return the source."""
        defaults = {"at_ms": NOW_MS - 30 * MINUTE_MS, "due_ms": NOW_MS - 10 * MINUTE_MS, "to": "orders"}
        table = "outcomes" if event in EVENT_ENDINGS else event if event in EVENT_TABLES else "others"
        rows = self.rows.setdefault(table, [])
        row = {
            "event": event,
            "source": source,
            "id": id_ or source,
            "partition": partition,
            "offset": next(self._offset),
        }
        rows.append(row | defaults | columns)
        return source

    def request(self, partition: int, offset: int, id_: str | None = None, op: str = "schedule") -> str:
        """Add a request at an offset of the requests topic; return its source."""
        row = {"topic": REQUESTS_TOPIC, "partition": partition, "offset": offset, "op": op, "id": id_, "to": "orders"}
        self.rows.setdefault("requests", []).append(row | {"stamp_ms": NOW_MS - 30 * MINUTE_MS, "at": str(NOW_MS)})
        return f"{REQUESTS_TOPIC}-{partition}-{offset}"

    def add(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        self.rows.setdefault(table, []).append(row)

    def lake(self, spark: SparkSession, root: Path) -> Lake:
        """Write all rows to a new ledger in `root` in one commit; return the ledger."""
        lake = Lake(spark, str(root), KIND, "p")
        self.commit_to(lake)
        return lake

    def commit_to(self, lake: Lake) -> None:
        """Write the rows since the last commit to a ledger in one commit, with the positions of the requests."""
        for request in self.rows.get("requests", ()):
            number = request["partition"]
            self._positions[number] = max(self._positions.get(number, 0), request["offset"] + 1)
        frames = {}
        for table, rows in self.rows.items():
            column_types = to_arrow_schema(SCHEMAS[table])
            complete_rows = [{name: ({"run": _RUN} | row).get(name) for name in column_types.names} for row in rows]
            frames[table] = lake.spark.createDataFrame(pa.Table.from_pylist(complete_rows, column_types))
        positions_read = positions(self.reports, [REQUESTS_TOPIC])
        snapshot = Snapshot(self.reports, positions_read, self.unsure, (REQUESTS_TOPIC,), 4)
        lake.commit(frames, {REQUESTS_TOPIC: self._positions}, {"snapshot": snapshot.note(), "forwarded": _RUN})
        self.rows.clear()


def progress_report(fired_to: int = NOW_MS, read: int = 100, pending: int = 0) -> ReportedProgress:
    """Return the last progress report of a partition, with `read` requests read and `pending` messages pending."""
    return ReportedProgress(NOW_MS, fired_to, {REQUESTS_TOPIC: read, FORWARDS_TOPIC: 10}, pending, {})
