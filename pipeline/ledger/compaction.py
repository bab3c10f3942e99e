"""Merges many small files into few large ones, sorted by time, and counts derived tables again."""

from typing import TYPE_CHECKING

from pipeline.ledger.lateness import histogram
from pipeline.ledger.lives import forecast, pending
from pipeline.ledger.tables import EVENT_TABLES, OUTCOMES, REQUESTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.lake import Lake

#: Larger directories are left unchanged, so that a compaction rewrites recent rows and not the whole ledger.
LARGE_BYTES = 512 << 20
#: Rows in a file, some 30 MB. The files are sorted by time, so a reader of the last hour opens one or two.
_ROWS = 1_000_000


def compact(lake: "Lake", large_bytes: int = LARGE_BYTES) -> None:
    """Merge directories smaller than `large_bytes`, count lateness and forecast again, and delete unused files.

    The change is one commit. Raises LakeBusy.
    """
    added: dict[str, DataFrame] = {}
    replaced: set[str] = {"lateness", "forecast"}
    for table, columns in {"requests": REQUESTS, **EVENT_TABLES}.items():
        parts = lake.head.tables.get(table, [])
        small = [part for part in parts if lake.files.size(part) < large_bytes]
        if len(small) > 1:
            rows = lake.spark.read.schema(columns).parquet(*(f"{lake.files.root}/{part}" for part in small))
            by = "stamp_ms" if table == "requests" else "at_ms"
            added[table] = rows.repartitionByRange(1 + rows.count() // _ROWS, by).sortWithinPartitions(by)
            replaced |= set(small)
    added["lateness"] = histogram(lake.read("outcomes", OUTCOMES)).coalesce(1)
    added["forecast"] = forecast(pending(lake)).coalesce(1)
    lake.commit(added, replaced=replaced)
    lake.clean()


def parts(lake: "Lake") -> int:
    """Return the maximum number of directories that a table has."""
    return max((len(there) for there in lake.head.tables.values()), default=0)
