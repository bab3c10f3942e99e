"""Filters records by the epoch of their writer: those of a replaced worker do not count.

With at-least-once delivery, a worker learns only after a write that another worker has replaced it, so its records are
on the cold topic although no owner of the partition knows them. Each record has its writer's epoch, and every new owner
has a higher one.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

#: The highest epoch of each partition so far.
Epochs = dict[int, int]
#: Partition, epoch, and the offset from which on records of that epoch do not count.
Bounds = list[tuple[int, int, int]]


def bounds(rows: DataFrame, epochs_before: Epochs) -> tuple[Bounds, Epochs]:
    """Return the bounds of rows that do not count, usually none, and the highest epochs after these rows.

    A row (columns partition, offset, epoch) counts if no row of a higher epoch comes before it in its partition; the
    epochs in `epochs_before` come before all rows.
    """
    firsts = rows.groupBy("partition", "epoch").agg(F.min("offset").alias("first")).collect()
    stale, epochs = [], dict(epochs_before)
    for row in firsts:
        later = [other.first for other in firsts if other.partition == row.partition and other.epoch > row.epoch]
        over = row.epoch < epochs_before.get(row.partition, 0)
        if over or later:
            stale.append((row.partition, row.epoch, 0 if over else min(later)))
        epochs[row.partition] = max(row.epoch, epochs.get(row.partition, 0))
    return stale, epochs


def within(rows: DataFrame, limits: Bounds) -> DataFrame:
    """Return the rows that count."""
    if not limits:
        return rows
    values = ", ".join(f"({partition}, {epoch}L, {bound}L)" for partition, epoch, bound in limits)
    of_them = rows.sparkSession.sql(f"SELECT * FROM VALUES {values} AS (partition, epoch, bound)")  # noqa: S608 - numbers
    joined = rows.join(F.broadcast(of_them), ["partition", "epoch"], "left")
    return joined.where("bound is null or offset < bound").select(rows.columns)
