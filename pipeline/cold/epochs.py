"""Whose records count: those of a partition's owners, not what a worker still wrote after it was replaced.

At least once, such a worker learns that it was only after it has written: what it told the cold tier is there, and
nobody stands by it. Each record has the epoch of its writer, and an owner's is higher than all before.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

#: The highest epoch of each partition so far.
Epochs = dict[int, int]
#: For records of a partition and epoch the offset from which on they don't count.
Bounds = list[tuple[int, int, int]]


def bounds(rows: DataFrame, known: Epochs) -> tuple[Bounds, Epochs]:
    """Return what of `rows` (columns partition, offset, epoch) doesn't count, nothing as a rule; and the epochs then.

    A row counts if no row of a higher epoch comes before it in its partition; those `known` come before all.
    """
    firsts = rows.groupBy("partition", "epoch").agg(F.min("offset").alias("first")).collect()
    found, epochs = [], dict(known)
    for row in firsts:
        later = [other.first for other in firsts if other.partition == row.partition and other.epoch > row.epoch]
        over = row.epoch < known.get(row.partition, 0)
        if over or later:
            found.append((row.partition, row.epoch, 0 if over else min(later)))
        epochs[row.partition] = max(row.epoch, epochs.get(row.partition, 0))
    return found, epochs


def within(rows: DataFrame, limits: Bounds) -> DataFrame:
    """Return those of `rows` that count."""
    if not limits:
        return rows
    values = ", ".join(f"({partition}, {epoch}L, {bound}L)" for partition, epoch, bound in limits)
    of_them = rows.sparkSession.sql(f"SELECT * FROM VALUES {values} AS (partition, epoch, bound)")  # noqa: S608 - numbers
    joined = rows.join(F.broadcast(of_them), ["partition", "epoch"], "left")
    return joined.where("bound is null or offset < bound").select(rows.columns)
