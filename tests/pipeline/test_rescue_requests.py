"""A rescued message is the original: with its planned times if it recurs, and with its input's policies."""

import pytest

from pipeline.dialects import bound
from pipeline.rescue import DEDUPE_MS, _sent
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.policies import parse_policies, with_policies
from punctual.contract.record import PlainRecord
from punctual.contract.request import Request
from punctual.contract.times import LONGEST_MS, parse_time

STAMP = parse_time("2027-03-01T12:00:00Z")


def rescued(lost_due: str | None, occurrence: int, /, policies: str = "", at_home: str = "", **asked: str) -> Request:
    """Return the request that brings back an occurrence, which was due then, as a worker reads it.

    Its input had `policies`, and the requests topic has those `at_home`.
    """
    headers = {"delay-id": "s", "delay-to": "orders", **{name.replace("_", "-"): said for name, said in asked.items()}}
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
        "headers": [{"key": name, "value": said.encode()} for name, said in headers.items()],
    }
    found = _sent(row, ("delay-requests",), 4, {"delay-requests": bound("native", policies)} if policies else {})
    assert found is not None
    said = [(each["key"], each["value"]) for each in found["headers"]]
    record = PlainRecord("delay-requests", 0, 99, STAMP + 10**10, found["key"], found["value"], said)
    return (with_policies(NATIVE, parse_policies(at_home)) if at_home else NATIVE).decode(record)


@pytest.mark.parametrize(
    ("lost_due", "asked"),
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
def test_it_goes_on_with_the_occurrence_that_is_lost(lost_due: str, asked: dict[str, str]) -> None:
    again = rescued(lost_due, 9, **asked)

    assert again.planned_ms == parse_time("2027-03-10T08:00:00Z")
    assert again.recurrence is not None
    assert again.recurrence.after(again.planned_ms) in (parse_time("2027-03-11T08:00:00Z"), None)


@pytest.mark.parametrize("asked", [{"delay_cron": "0 0 1 * *", "delay_jitter": "PT5H"}, {"delay_every": "P1D"}])
def test_of_one_that_nobody_has_told_of_it_begins_anew(asked: dict[str, str]) -> None:
    first = rescued(None, 1, **asked)

    assert first.planned_ms == parse_time("2027-04-01T00:00:00Z" if "delay_cron" in asked else "2027-03-02T12:00:00Z")


def test_what_had_its_policies_of_its_input_has_them_again() -> None:
    again = rescued("2027-03-10T08:00:00Z", 1, "max-late PT5M if-late drop dedupe P7D", delay_at="2027-03-10T08:00:00Z")

    assert (again.max_late_ms, again.if_late, again.dedupe_ms) == (300_000, "drop", 7 * 86_400_000)


@pytest.mark.parametrize("asked", [{"delay_at": "2027-03-10T08:00:00Z"}, {"delay_cron": "0 8 * * *"}])
def test_what_had_none_does_not_get_those_of_the_topic_that_it_is_sent_to(asked: dict[str, str]) -> None:
    due, policies = "2027-03-10T08:00:00Z", "max-late PT5M if-late drop no-later PT1M jitter PT5M dedupe P9D"
    again = rescued(due, 1, "", policies, **asked)

    assert (again.due_ms, again.max_late_ms, again.if_late) == (parse_time(due), LONGEST_MS, None)
    if again.recurrence is None:
        assert (again.no_later_ms, again.dedupe_ms) == (LONGEST_MS, DEDUPE_MS)
    else:
        assert again.recurrence.jitter_ms == 0
