"""Lateness of deliveries: histograms that add up over destinations, minutes and runs.

Each bin is 5 % wider than the one before, so a percentile has an error of at most 2.5 % at any scale.
"""

import math
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.ledger.lives import minute

GROWTH = 1.05


def histogram(outcomes: DataFrame) -> DataFrame:
    """Return the deliveries among rows of `OUTCOMES` (to, minute_ms, bin, count); each source counts once."""
    late = F.greatest("late_ms", F.lit(0))
    number = F.when(late < 1, 0).otherwise(1 + F.floor(F.log(late.cast("double")) / math.log(GROWTH))).cast("int")
    return (
        outcomes.where("event = 'delivered' and late_ms is not null")
        .groupBy("source", "to")
        .agg(F.min("at_ms").alias("at_ms"), F.min("late_ms").alias("late_ms"))
        .groupBy("to", minute(F.col("at_ms")), number.alias("bin"))
        .agg(F.count("*").alias("count"))
    )


def late_ms(number: int) -> float:
    """Return the lateness (ms) that stands for a bin, its geometric middle."""
    return 0.0 if number == 0 else GROWTH ** (number - 0.5)


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """Return the lateness (ms) that a share of the deliveries did not exceed, from counts by bin; None without any."""
    rank, cumulative = math.ceil(share * sum(counts.values()) - 1e-9), 0
    for number in sorted(counts):
        cumulative += counts[number]
        if cumulative >= max(rank, 1):
            return late_ms(number)
    return None
