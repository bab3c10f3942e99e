"""Decides without Spark whether a promotion may have work, from the files' statistics and the topic's new records.

If that is uncertain, or would take long, it answers yes, and Spark finds out.
"""

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.dataset as ds

from punctual.contract import headers as names

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from pipeline.cold.promotion import Promotion
    from pipeline.files import LocalFiles
    from pipeline.lake import Commit
    from pipeline.preflight import Look

#: Maxima of messages that may be due, bytes of voids, and new records that are read here; beyond them Spark reads them.
_MESSAGES, _VOID_BYTES, _RECORDS = 100_000, 64 << 20, 20_000


def is_due(files: "LocalFiles", head: "Commit", promotion: "Promotion", before: "Promotion") -> bool:
    """Return whether the tables may have a message that `promotion` must send, after the promotion `before`."""
    parts = files.parquet(head.tables.get("messages", ()))
    if not parts:
        return False
    due = ds.dataset(parts).filter(pc.field("due_ms") < promotion.until_ms)
    if due.count_rows() > _MESSAGES:
        return True
    candidates = due.to_table(columns=["id", "partition", "offset", "due_ms"])
    fresh = [row for row in candidates.to_pylist() if promotion.is_fresh(before, **row)]
    if not fresh:
        return False
    voids = _voids(files, head, {row["id"] for row in fresh})
    return voids is None or any(row["offset"] >= voids.get(row["id"], 0) for row in fresh)


def _voids(files: "LocalFiles", head: "Commit", ids: set[str]) -> dict[str, int] | None:
    """Return for each id the offset below which its versions are void; None if the voids are too many to read."""
    parts = files.parquet(head.tables.get("voids", ()))
    if not parts:  # compaction removes them all, and pyarrow cannot find columns of a table without files
        return {}
    if sum(part.stat().st_size for part in parts) > _VOID_BYTES:
        return None
    voids: dict[str, int] = {}
    rows: pa.Table = ds.dataset(parts).to_table(columns=["id", "offset"], filter=pc.field("id").isin(list(ids)))
    for row in rows.to_pylist():
        voids[row["id"]] = max(row["offset"], voids.get(row["id"], 0))
    return voids


def may_bring(look: "Look", topic: str, done: dict[int, int], ends: dict[int, int], until_ms: int) -> bool:
    """Return whether new records of the cold topic may make a message due by `until_ms`."""
    if sum(end - done.get(number, 0) for number, end in ends.items()) > _RECORDS:
        return True
    return any(_due_ms(record.headers) < until_ms for record in look.records(topic, done, ends))


def _due_ms(headers: "Iterable[tuple[str, bytes | None]]") -> float:
    """Return the due time in a record of the cold topic; infinity for one that neither parks nor moves a message."""
    at = dict(headers).get(names.AT)
    return int(at) if at is not None and at.isdigit() else float("inf")
