"""The report: one file that shows the ledger's data and loads no other resource."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pyspark.sql import SparkSession

from pipeline.reconcile.lost import Judge
from pipeline.reconcile.verdict import Verdict
from pipeline.report.charts import brief, lasting
from pipeline.report.findings import Findings, OverTime
from pipeline.report.page import page, picture, tiles
from tests.pipeline.ledger_builder import MINUTE_MS, NOW_MS, LedgerBuilder, progress_report


def test_a_report_shows_the_data_of_the_ledger_in_one_file(spark: SparkSession, tmp_path: Path) -> None:
    ledger = LedgerBuilder()
    for number in range(12):
        source = ledger.event("accepted", f"p-requests-0-{number}", to=f"<to>$x_$-{number % 12}")
        at_ms = NOW_MS - number * MINUTE_MS
        delivered = f"orders-0-{number}"
        ledger.event(
            "delivered", source, to=f"<to>$x_$-{number}", late_ms=10 * number, at_ms=at_ms, delivered=delivered
        )
    for number in range(12, 25):
        ledger.event(
            "accepted", f"p-requests-0-{number}", to=f"<to>$x_$-{number % 12}", due_ms=NOW_MS + number * MINUTE_MS
        )
    ledger.event("rejected", ledger.event("accepted", "p-requests-0-25"), reason="undeliverable")
    ledger.event("refused", "p-requests-0-26", to=None, reason="malformed")
    ledger.event("refused", "p-requests-0-26", to=None, reason="malformed")
    ledger.reports[0] = progress_report(pending=13)
    findings = Findings.of(Judge(ledger.lake(spark, tmp_path)), NOW_MS)

    assert dict(findings.reasons) == {("rejected", "undeliverable"): 1, ("refused", "malformed"): 1}
    assert sum(sum(counts.values()) for counts in findings.late.columns.values()) == 12
    assert len(findings.late_to) == 10
    assert sum(sum(counts.values()) for counts in findings.due.columns.values()) == 13
    tile_values = {name: value for value, name, _ in tiles(findings)}
    assert {name: tile_values[name] for name in ("accepted", "delivered", "pending", "missing")} == {
        "accepted": "26",
        "delivered": "12",
        "pending": "13",
        "missing": "0",
    }
    text = page(findings)
    assert "Every accepted message is accounted for" in text
    assert "&lt;to&gt;$x_$-3" in text
    assert "<to>" not in text
    assert not re.search(r"(src|href)=\"(?!#)|url\((?!#)|@import|<script|<!DOCTYPE svg", text), (
        "the page loads no other resource"
    )
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 5
    ids = [element.get("id") for svg in pictures for element in ET.fromstring(svg).iter("{*}clipPath")]  # noqa: S314 - ours
    assert len(ids) == len(set(ids)), "the pictures of a page share no id"
    assert picture(findings).startswith(b"\x89PNG")


def test_a_report_of_an_empty_ledger_shows_that_there_is_no_data() -> None:
    findings = Findings(
        "p", NOW_MS, Verdict([], [], 0, Counter(), 0, [], 0, [], []), OverTime(1, {}), {}, OverTime(1, {}), []
    )
    assert page(findings).count("Nothing yet.") == 5
    assert picture(findings).startswith(b"\x89PNG")


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (1_234, "1.23k"), (318_900, "319k"), (2_500_000, "2.5M")])
def test_a_count_is_shown_in_few_characters(value: int, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(("value", "text"), [(4.02, "4 ms"), (219, "220 ms"), (90_000, "1.5 min")])
def test_a_duration_is_shown_in_few_characters(value: float, text: str) -> None:
    assert lasting(value) == text
