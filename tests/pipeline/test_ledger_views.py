"""The views and the notebook of the documentation show the account and the lateness of a ledger."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.lake import Lake
from pipeline.ledger.lives import kept_lives
from pipeline.reconcile.account import account
from tests.pipeline.ledger_builder import MINUTE_MS, NOW_MS, LedgerBuilder

DOCS = Path(__file__).parents[2] / "docs/how-to"
DAY_MS = 24 * 60 * MINUTE_MS
DAY = datetime.fromtimestamp((NOW_MS - 30 * MINUTE_MS) / 1_000, UTC).date()


@pytest.fixture(scope="module")
def ledger(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a ledger with each ending, a repeated event, a second ending, a duplicate, and occurrences of a series."""
    ledger = LedgerBuilder()

    def accepted(number: int, **columns: Any) -> str:
        return ledger.event("accepted", f"p-requests-0-{number}", **columns)

    for number in range(20):
        place = f"orders-0-{number}"
        ledger.event("delivered", accepted(number), delivered=place, late_ms=number, at_ms=NOW_MS)
    ledger.event("delivered", "p-requests-0-3", delivered="orders-0-30", late_ms=90, at_ms=NOW_MS)
    ledger.event("delivered", "p-requests-0-4", delivered="orders-0-4", late_ms=4, at_ms=NOW_MS)
    ledger.event("cancelled", "p-requests-0-5", at_ms=NOW_MS - MINUTE_MS)
    accepted(6)
    for number, ending in enumerate(("cancelled", "replaced", "dropped", "rejected", "parked"), 40):
        ledger.event(ending, accepted(number, to="payments"), to="payments")
    accepted(50)
    accepted(51, at_ms=NOW_MS - DAY_MS, to="payments")
    ledger.add("rescued", source=accepted(52), id="x", to="orders", at_ms=NOW_MS, run="r")
    series = accepted(60)
    ledger.event("delivered", series, delivered="orders-0-60", late_ms=1, at_ms=NOW_MS)
    ledger.event("delivered", ledger.event("accepted", f"{series}@2"), delivered="orders-0-61", late_ms=1, at_ms=NOW_MS)
    ledger.event("accepted", f"{series}@3")
    return ledger.lake(spark, tmp_path_factory.mktemp("ledger") / "ledger")


@pytest.fixture(scope="module")
def of_pipeline(ledger: Lake) -> dict[tuple[str, str], Counter[str]]:
    """Return the account that `reconcile` makes, by day and destination."""
    with kept_lives(ledger) as lives:
        rows = account(ledger, lives).collect()
    counts = {(str(row["day"]), row["to"]): Counter({k: n for k, n in row.asDict().items() if n}) for row in rows}
    for row in counts.values():
        del row["day"], row["to"]
    return counts


def test_the_views_show_what_reconcile_counts(ledger: Lake, of_pipeline: dict[Any, Counter[str]]) -> None:
    spark = ledger.spark
    script = Template((DOCS / "ledger_views.sql").read_text("utf-8")).substitute(ledger=ledger.root)
    for statement in filter(str.strip, script.split(";")):
        spark.sql(statement)

    rows = spark.table("account").withColumnRenamed("unended", "pending").collect()
    counts = {
        (str(row["day"]), row["to"]): Counter({k: n for k, n in row.asDict().items() if n and k not in ("day", "to")})
        for row in rows
    }
    assert counts == of_pipeline
    [late] = spark.table("lateness").collect()
    assert (late["to"], late["deliveries"], late["p50"], late["largest"]) == ("orders", 24, 8.5, 90)


@pytest.fixture
def notebook(ledger: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Run the cells of the notebook; return its variables."""
    monkeypatch.setenv("LEDGER", ledger.root)
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads((DOCS / "ledger.ipynb").read_text("utf-8"))["cells"]
    variables: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), variables)  # noqa: S102 - as Jupyter does
    yield variables
    variables["plt"].close("all")


def test_the_notebook_shows_what_reconcile_counts(
    notebook: dict[str, Any], of_pipeline: dict[Any, Counter[str]]
) -> None:
    frame = notebook["account"]
    counts = {
        (str(day), to): Counter({name: count for name, count in row.items() if count})
        for (day, to), row in zip(frame.index, frame.to_dict("records"), strict=True)
    }
    for of in of_pipeline.values():
        of["unended"] = of["pending"]
        del of["accepted"], of["pending"], of["duplicates"]
    assert counts == {place: +of for place, of in of_pipeline.items()}
    late = notebook["lateness"].loc[DAY, "orders"]
    assert (late["count"], late["50%"], late["max"]) == (24, 8.5, 90)
