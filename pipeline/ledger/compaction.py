"""Few large files from many small ones, in the order of time, and what is derived counted anew."""

from typing import TYPE_CHECKING

from pipeline.ledger.lateness import histogram
from pipeline.ledger.lives import forecast, pending
from pipeline.ledger.tables import EVENT_TABLES, OUTCOMES, REQUESTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.lake import Lake

#: Directories above this are left as they are: what is written anew is what has come since, not the whole ledger.
LARGE_BYTES = 512 << 20
#: So many rows make a file of some 30 MB; sorted by time, a reader of the last hour opens one or two.
_ROWS = 1_000_000


def compact(lake: "Lake", large_bytes: int = LARGE_BYTES) -> None:
    """Merge small files in one commit, count lateness and forecast anew, and delete what nobody refers to.

    Raises LakeBusy.
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
    """Return how many directories the table with the most of them has."""
    return max((len(there) for there in lake.head.tables.values()), default=0)
