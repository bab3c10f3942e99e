"""Histograms of lateness and their percentiles."""

import math
import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.ledger.lateness import GROWTH, histogram, percentile
from pipeline.ledger.tables import OUTCOMES
from tests.pipeline.ledger_builder import MINUTE_MS, NOW_MS, LedgerBuilder


def test_percentiles_of_a_histogram_are_exact_to_the_width_of_a_bin(spark: SparkSession, tmp_path: Path) -> None:
    generator = random.Random(1)  # noqa: S311 - the same numbers in each run
    lateness = sorted(int(generator.lognormvariate(3, 2)) for _ in range(2_000))
    ledger = LedgerBuilder()
    for number, late_ms in enumerate(lateness):
        at_ms = NOW_MS + number % 2 * MINUTE_MS
        ledger.event(
            "delivered", f"p-requests-0-{number}", late_ms=late_ms, at_ms=at_ms, delivered=f"orders-0-{number}"
        )
    ledger.event("delivered", "p-requests-0-0", late_ms=lateness[0] + 9, at_ms=NOW_MS + 9, delivered="orders-0-9999")
    ledger.event("dropped", "p-requests-0-9999", late_ms=10**9)
    rows = histogram(ledger.lake(spark, tmp_path).read("outcomes", OUTCOMES)).collect()

    assert {row["minute_ms"] - NOW_MS + NOW_MS % MINUTE_MS for row in rows} == {0, MINUTE_MS}
    counts: Counter[int] = Counter()
    for row in rows:
        counts[row["bin"]] += row["count"]
    assert counts.total() == len(lateness)
    for share in (0.5, 0.9, 0.99, 0.999, 1.0):
        expected_ms = lateness[math.ceil(share * len(lateness)) - 1]
        assert percentile(counts, share) == pytest.approx(expected_ms, rel=math.sqrt(GROWTH) - 1 + 1e-9)
    assert percentile({}, 0.5) is None
