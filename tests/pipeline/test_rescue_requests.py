"""A rescued message keeps the planned times of its series and the policies of its original input."""

import pytest

from pipeline.dialects import bound
from pipeline.rescue import DEDUPE_MS, _sent
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.policies import parse_policies, with_policies
from punctual.contract.record import PlainRecord
from punctual.contract.request import Request
from punctual.contract.times import LONGEST_MS, parse_time

STAMP = parse_time("2027-03-01T12:00:00Z")


def rescued(
    lost_due: str | None, occurrence: int, /, policies: str = "", at_home: str = "", **request_options: str
) -> Request:
    """Return the request that rescues an occurrence with the due time `lost_due`, as a worker decodes it.

    The original input has `policies`, and the requests topic has the policies `at_home`.
    """
    headers = {"delay-id": "s", "delay-to": "orders"}
    headers |= {name.replace("_", "-"): text for name, text in request_options.items()}
    source = "delay-requests-0-7" if occurrence == 1 else f"delay-requests-0-7@{occurrence}"
    row = {
        "source": source,
        "lost_id": "s",
        "lost_due_ms": None if lost_due is None else parse_time(lost_due),
        "topic": "delay-requests",
        "partition": 0,
        "offset": 7,
        "stamp_ms": STAMP,
        "key": None,
        "value": b"v",
        "headers": [{"key": name, "value": text.encode()} for name, text in headers.items()],
    }
    rescue = _sent(row, ("delay-requests",), 4, {"delay-requests": bound("native", policies)} if policies else {})
    assert rescue is not None
    rescue_headers = [(header["key"], header["value"]) for header in rescue["headers"]]
    record = PlainRecord("delay-requests", 0, 99, STAMP + 10**10, rescue["key"], rescue["value"], rescue_headers)
    return (with_policies(NATIVE, parse_policies(at_home)) if at_home else NATIVE).decode(record)


@pytest.mark.parametrize(
    ("lost_due", "request_options"),
    [
        ("2027-03-10T08:00:00Z", {"delay_cron": "0 8 * * *"}),
        ("2027-03-10T08:07:12Z", {"delay_cron": "0 8 * * *", "delay_jitter": "PT10M"}),
        (
            "2027-03-10T08:07:12Z",
            {"delay_cron": "0 8 * * *", "delay_jitter": "PT10M", "delay_until": "2027-03-10T09:00:00Z"},
        ),
        ("2027-03-10T08:30:00Z", {"delay_cron": "0 8 * * *"}),
        ("2027-03-10T08:44:00Z", {"delay_every": "P1D", "delay_at": "2027-03-02T08:00:00Z", "delay_jitter": "PT1H"}),
        ("2027-03-10T08:30:00Z", {"delay_every": "P1D", "delay_at": "2027-03-02T08:00:00Z"}),
    ],
)
def test_a_rescued_series_continues_with_the_lost_occurrence(lost_due: str, request_options: dict[str, str]) -> None:
    request = rescued(lost_due, 9, **request_options)

    assert request.planned_ms == parse_time("2027-03-10T08:00:00Z")
    assert request.recurrence is not None
    assert request.recurrence.after(request.planned_ms) in (parse_time("2027-03-11T08:00:00Z"), None)


@pytest.mark.parametrize(
    "request_options", [{"delay_cron": "0 0 1 * *", "delay_jitter": "PT5H"}, {"delay_every": "P1D"}]
)
def test_a_rescued_series_without_events_starts_again(request_options: dict[str, str]) -> None:
    request = rescued(None, 1, **request_options)

    assert request.planned_ms == parse_time(
        "2027-04-01T00:00:00Z" if "delay_cron" in request_options else "2027-03-02T12:00:00Z"
    )


def test_a_rescued_message_has_the_policies_of_its_original_input() -> None:
    request = rescued(
        "2027-03-10T08:00:00Z", 1, "max-late PT5M if-late drop dedupe P7D", delay_at="2027-03-10T08:00:00Z"
    )

    assert (request.max_late_ms, request.if_late, request.dedupe_ms) == (300_000, "drop", 7 * 86_400_000)


@pytest.mark.parametrize("request_options", [{"delay_at": "2027-03-10T08:00:00Z"}, {"delay_cron": "0 8 * * *"}])
def test_a_rescued_message_does_not_get_the_policies_of_the_requests_topic(request_options: dict[str, str]) -> None:
    due, policies = "2027-03-10T08:00:00Z", "max-late PT5M if-late drop no-later PT1M jitter PT5M dedupe P9D"
    request = rescued(due, 1, "", policies, **request_options)

    assert (request.due_ms, request.max_late_ms, request.if_late) == (parse_time(due), LONGEST_MS, None)
    if request.recurrence is None:
        assert (request.no_later_ms, request.dedupe_ms) == (LONGEST_MS, DEDUPE_MS)
    else:
        assert request.recurrence.jitter_ms == 0
