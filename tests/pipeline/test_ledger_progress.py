"""The number of pending messages in a progress report includes the destinations that the report sums up."""

import json

from pipeline.ledger.progress import ReportedProgress

REPORT = {"at": 5, "fired_to": 4, "positions": {"delay-requests": 3}, "pending": {"orders": 2, "payments": 1}}


def test_summed_up_destinations_count_as_pending() -> None:
    assert ReportedProgress.of(json.dumps(REPORT).encode()).pending == 3
    rest = {"pending_rest": {"destinations": 900, "messages": 1_000}, "state": "restoring"}
    assert ReportedProgress.of(json.dumps(REPORT | rest).encode()).pending == 1_003
