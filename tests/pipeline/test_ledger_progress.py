"""The pending messages in a progress record include the summed-up rest."""

import json

from pipeline.ledger.progress import ReportedProgress

SAID = {"at": 5, "fired_to": 4, "positions": {"delay-requests": 3}, "pending": {"orders": 2, "payments": 1}}


def test_what_a_report_sums_up_is_pending_too() -> None:
    assert ReportedProgress.of(json.dumps(SAID).encode()).pending == 3
    rest = {"pending_rest": {"destinations": 900, "messages": 1_000}, "state": "restoring"}
    assert ReportedProgress.of(json.dumps(SAID | rest).encode()).pending == 1_003
