"""Workers with different settings are named once, with the settings that differ."""

import msgspec
import pytest

from app.engine.reports.agreement import Agreement, fingerprint
from app.engine.reports.reader import ProgressRecord, Report
from app.settings.settings import Settings

NOW_MS = 1_800_000_000_000
OURS = {"DELAY_DESTINATIONS": "orders,reminders", "PORT": "6066"}


def settings(**env: str) -> Settings:
    return Settings.from_env(OURS | env)


def report(theirs: Settings, appended_ms: int = NOW_MS) -> Report:
    progress = ProgressRecord(
        partition=0,
        at_ms=appended_ms,
        fired_to_ms=0,
        positions={},
        pending={},
        overdue=0,
        worker=theirs.process.url,
        version="0",
        settings=fingerprint(theirs),
    )
    return Report(progress, 0, appended_ms)


def warnings(caplog: pytest.LogCaptureFixture, *looks: Report) -> list[str]:
    agreement = Agreement(settings(), NOW_MS - 5_000)
    for one in looks:
        agreement.look([one], NOW_MS)
    return caplog.messages


def test_what_differs_is_named_once_with_the_other_workers_address(caplog: pytest.LogCaptureFixture) -> None:
    other = settings(PORT="6067", DELAY_DESTINATIONS="*", DELAY_GUARANTEE="exactly_once")

    [sentence] = warnings(caplog, report(other), report(other))

    assert "http://127.0.0.1:6067" in sentence
    assert "different values of the settings DELAY_DESTINATIONS, DELAY_GUARANTEE." in sentence


def test_it_is_named_again_when_something_else_differs(caplog: pytest.LogCaptureFixture) -> None:
    first = settings(PORT="6067", DELAY_DEDUPE_WINDOW="PT1H")
    second = settings(PORT="6067", DELAY_PARTITIONS="8")

    assert len(warnings(caplog, report(first), report(second), report(settings(PORT="6067")), report(first))) == 3


@pytest.mark.parametrize(
    "same",
    [
        {"DELAY_DESTINATIONS": " reminders, orders"},
        {"DATADIR": "/elsewhere", "HOST": "0.0.0.0", "KAFKA_SASL_PASSWORD": "x"},  # noqa: S104 - not listened on
        {
            "DELAY_MAX_IN_FLIGHT": "7",
            "DELAY_CATCH_UP": "PT5M",
            "DELAY_TLS_CERT": "/own/cert.pem",
            "DELAY_TLS_KEY": "/own/key.pem",
            "DELAY_LOG_FORMAT": "json",
        },
        {"DELAY_DEDUPE_WINDOW": "PT0S"},
    ],
)
def test_settings_of_a_single_worker_may_differ(caplog: pytest.LogCaptureFixture, same: dict[str, str]) -> None:
    assert warnings(caplog, report(settings(PORT="6067", **same))) == []


def test_a_repeated_report_of_a_partition_without_an_owner_is_not_compared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    theirs = report(settings(PORT="6067", DELAY_DEDUPE_WINDOW="PT1H"))

    repeated = Report(msgspec.structs.replace(theirs.progress, state="stopped"), 0, NOW_MS)

    assert warnings(caplog, repeated) == []


def test_reports_from_before_the_start_and_old_ones_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    other = settings(PORT="6067", DELAY_DEDUPE_WINDOW="PT1H")

    assert warnings(caplog, report(other, NOW_MS - 5_001)) == []


def test_a_report_without_settings_is_from_an_older_worker(caplog: pytest.LogCaptureFixture) -> None:
    theirs = report(settings(PORT="6067"))
    older = Report(msgspec.structs.replace(theirs.progress, settings={}), 0, NOW_MS)

    assert warnings(caplog, older) == []


def test_the_values_stay_where_they_are() -> None:
    assert all(len(told) == 8 for told in fingerprint(settings(DELAY_CLUSTERS="other=10.0.0.1:9092")).values())
