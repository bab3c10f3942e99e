"""Recurring messages: what headers ask for, and when a series goes on."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from punctual.contract import headers as names
from punctual.contract.recurrence import Recurrence
from punctual.contract.recurring import decode, write
from punctual.contract.request import Reason, Refusal
from punctual.contract.times import parse_time
from tests.punctual.contract.records import NOW

HOUR = 3_600_000
DAY = 24 * HOUR
YEAR = 365 * DAY


def asked(at_ms: int | None = None, /, **said: str) -> tuple[Recurrence, int]:
    return decode({f"delay-{name}": text for name, text in said.items()}, NOW, at_ms)


def test_an_interval_counts_from_the_record_or_from_the_requested_start() -> None:
    assert asked(every="PT1H") == (Recurrence(HOUR, None, NOW + HOUR), NOW + HOUR)
    assert asked(NOW + 5, every="PT1H") == (Recurrence(HOUR, None, NOW + 5), NOW + 5)
    assert asked(every="1000")[0].every_ms == 1_000


def test_cron_starts_after_the_record_or_at_the_requested_start() -> None:
    assert asked(cron="0 0 * * *") == (Recurrence(None, "0 0 * * *"), NOW + DAY)
    assert asked(NOW, cron="@daily") == (Recurrence(None, "0 0 * * *"), NOW)
    assert asked(NOW + 1, cron="@daily")[1] == NOW + DAY
    assert asked(NOW - DAY, cron="@daily")[1] == NOW - DAY


def test_all_options_of_a_recurrence_are_read() -> None:
    recurrence, first_ms = asked(
        cron="0 30 2 * * *",
        zone="Europe/Berlin",
        until="2027-01-01T00:00:00Z",
        count="5",
        misfire="catch-up PT2H",
        jitter="PT5S",
    )

    assert first_ms == parse_time("2026-01-01T02:30:00+01:00")
    assert recurrence == Recurrence(
        None, "0 30 2 * * *", 0, "Europe/Berlin", NOW + YEAR, 5, "catch-up", 2 * HOUR, 5_000
    )


@pytest.mark.parametrize(
    ("text", "policy", "window_ms"),
    [
        ("skip", "catch-up-last", 60_000),
        ("skip PT5M", "catch-up-last", 300_000),
        ("catch-up", "catch-up", None),
        ("catch-up 1", "catch-up", 1),
        ("catch-up-last", "catch-up-last", None),
        ("catch-up-last P1D", "catch-up-last", DAY),
    ],
)
def test_missed_occurrences_are_skipped_or_caught_up(text: str, policy: str, window_ms: int | None) -> None:
    recurrence, _ = asked(every="PT1H", misfire=text)

    assert (recurrence.misfire, recurrence.window_ms) == (policy, window_ms)


def test_without_a_policy_the_last_that_was_missed_is_delivered_however_late() -> None:
    recurrence, _ = asked(every="PT1H")

    assert (recurrence.misfire, recurrence.window_ms) == ("catch-up-last", None)


def test_utc_needs_no_zone() -> None:
    assert asked(cron="@daily", zone="UTC")[0].zone is None
    assert asked(cron="@daily", zone="Etc/GMT+2")[0].zone == "Etc/GMT+2"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"every": "PT1H", "cron": "@daily"}, "delay-every and delay-cron are both given. Send one of them."),
        ({"count": "3"}, "delay-count needs delay-every or delay-cron, which says when the message recurs."),
        ({"zone": "UTC"}, "delay-zone needs delay-every or delay-cron, which says when the message recurs."),
        ({"every": "PT0.999S"}, "delay-every: 'PT0.999S' is less than a second, which is the minimum interval."),
        ({"every": "0"}, "delay-every: '0' is less than a second, which is the minimum interval."),
        (
            {"every": "P1M"},
            "delay-every: 'P1M' is not a duration. Use 90s, 15m, 1h30m or 5d, milliseconds, or ISO",
        ),
        (
            {"every": "PT1H", "zone": "UTC"},
            "delay-zone works only with delay-cron: an interval does not depend on the zone. Leave",
        ),
        ({"cron": ""}, "delay-cron: '' is not a schedule. Use 5 fields (minute, hour, day of month, month, day of"),
        (
            {"cron": "0 25 * * *"},
            "delay-cron: '0 25 * * *' is not a schedule: its hour is invalid. See docs/reference/",
        ),
        ({"cron": "0 0 30 2 *"}, "delay-cron: '0 0 30 2 *' never occurs: none of its months has that day."),
        ({"cron": "@often"}, "delay-cron: '@often' is not the name of a schedule. Use one of @hourly, @daily, "),
        (
            {"cron": "@daily", "zone": "Europe/Berln"},
            "delay-zone: 'Europe/Berln' is not a known time zone; the nearest is Europe/Berlin. Use an IANA name ",
        ),
        (
            {"cron": "@daily", "zone": "+02:00"},
            "delay-zone: '+02:00' is not a known time zone; the nearest is Etc/GMT-2, which is UTC+2. Use",
        ),
        ({"cron": "@daily", "until": "soon"}, "delay-until: 'soon' is not a time. Use epoch milliseconds, or RFC 3339"),
        (
            {"cron": "@daily", "until": "2026-01-01T23:59:59Z"},
            "delay-until: '2026-01-01T23:59:59Z' is before the first occurrence. Use a later time.",
        ),
        ({"every": "PT1H", "until": str(NOW)}, f"delay-until: '{NOW}' is before the first occurrence. Use a later"),
        ({"every": "PT1H", "count": "0"}, "delay-count: '0' is not a count of occurrences. Use a whole number, 1 or"),
        ({"every": "PT1H", "count": "-1"}, "delay-count: '-1' is not a count of occurrences."),
        ({"every": "PT1H", "count": "1" * 10}, "delay-count: '1111111111' is not a count of occurrences."),
        (
            {"every": "PT1H", "misfire": "drop"},
            "delay-misfire: 'drop' is not a policy. Use one of skip, catch-up, catch-up-last, and optionally a maximum",
        ),
        ({"every": "PT1H", "misfire": ""}, "delay-misfire: '' is not a policy. Use one of skip, catch-up, "),
        ({"every": "PT1H", "misfire": "skip "}, "delay-misfire: '' is not a duration. Use 90s"),
        ({"every": "PT1H", "misfire": "skip 1 h"}, "delay-misfire: '1 h' is not a duration."),
        (
            {"every": "PT1H", "misfire": "skip 0"},
            "delay-misfire: 'skip 0' delivers nothing, because every message is a little late",
        ),
        ({"every": "PT1H", "jitter": "1sec"}, "delay-jitter: '1sec' is not a duration."),
    ],
)
def test_an_invalid_recurrence_is_refused_with_a_reason(said: dict[str, str], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        asked(**said)

    both = "every" in said and "cron" in said
    assert refused.value.reason is (Reason.AMBIGUOUS_DUE if both else Reason.MALFORMED)
    assert refused.value.sentence.startswith(says), refused.value.sentence


def test_a_first_time_beyond_all_calendars_is_refused() -> None:
    with pytest.raises(Refusal, match="delay-cron: '@daily' never occurs"):
        asked(10**15 - 1, cron="@daily")


RECURRENCES = st.builds(
    Recurrence,
    every_ms=st.none(),
    cron=st.sampled_from(["* * * * *", "30 2 * * *", "15 1 1 * *", "*/20 * * * * *", "0 9 * * 1-5"]),
    zone=st.sampled_from([None, "Europe/Berlin", "America/Havana", "Australia/Lord_Howe"]),
    until_ms=st.none() | st.integers(NOW + YEAR, NOW + 3 * YEAR),
    count=st.none() | st.integers(1, 10**9 - 1),
    misfire=st.sampled_from(["catch-up", "catch-up-last"]),
    window_ms=st.none() | st.integers(1, 10**12),
    jitter_ms=st.none() | st.integers(0, 10**12),
) | st.builds(
    Recurrence,
    every_ms=st.integers(1_000, 10**10),
    cron=st.none(),
    anchor_ms=st.integers(NOW - YEAR, NOW + YEAR),
    until_ms=st.none() | st.integers(NOW + YEAR, NOW + 3 * YEAR),
    count=st.none() | st.integers(1, 10**9 - 1),
)


@given(RECURRENCES, st.integers(0, 10**6))
def test_written_headers_request_the_rest_of_the_series(recurrence: Recurrence, ms: int) -> None:
    first_ms = recurrence.after(max(NOW, recurrence.anchor_ms) + ms - 1)
    if first_ms is None:
        return

    again, then_ms = decode(dict(write(recurrence)), NOW, first_ms)

    assert then_ms == first_ms
    assert again == msgspec.structs.replace(recurrence, anchor_ms=first_ms if recurrence.every_ms else 0)
    assert again.following(first_ms, 5) == recurrence.following(first_ms, 5)


def test_occurrences_that_were_are_not_counted_again() -> None:
    recurrence, _ = asked(every="PT1H", count="5", misfire="skip")

    assert write(recurrence) == [
        (names.EVERY, "3600000"),
        (names.COUNT, "5"),
        (names.MISFIRE, "catch-up-last 60000"),
    ]
    assert dict(write(recurrence, 5))[names.COUNT] == "1"


def test_a_time_that_looks_like_seconds_is_written_so_that_it_is_read() -> None:
    recurrence = Recurrence(1_000, None, 0, until_ms=999_999_999)

    assert decode(dict(write(recurrence)), 0, 0) == (recurrence, 0)


@given(RECURRENCES, st.integers(NOW - 2 * YEAR, NOW + 2 * YEAR), st.integers(0, DAY))
@settings(deadline=None)
def test_the_last_before_is_that_of_all_that_follow(recurrence: Recurrence, after_ms: int, passed_ms: int) -> None:
    now_ms = after_ms + passed_ms
    last = None
    planned = recurrence.after(after_ms)
    while planned is not None and planned <= now_ms:
        last, planned = planned, recurrence.after(planned)

    assert recurrence.last_before(after_ms, now_ms) == last


@given(RECURRENCES, st.integers(NOW - 2 * YEAR, NOW + YEAR), st.integers(0, 10 * YEAR))
@settings(deadline=None)
def test_after_the_last_occurrence_no_time_is_left(recurrence: Recurrence, after_ms: int, passed_ms: int) -> None:
    now_ms = after_ms + passed_ms
    last = recurrence.last_before(after_ms, now_ms)
    begin = after_ms if last is None else last

    assert begin <= now_ms
    assert (recurrence.after(begin) or now_ms + 1) > now_ms
    assert last is None or recurrence.after(last - 1) == last > after_ms


def test_a_year_of_every_second_is_passed_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    after = Recurrence.after

    def counted(self: Recurrence, ms: int) -> int | None:
        nonlocal steps
        steps += 1
        return after(self, ms)

    monkeypatch.setattr(Recurrence, "after", counted)

    assert Recurrence(None, "* * * * * *").last_before(NOW, NOW + YEAR + 999) == NOW + YEAR
    assert steps < 40


@pytest.mark.parametrize("recurrence", [Recurrence(HOUR, None, NOW), Recurrence(None, "0 * * * *")])
def test_a_series_ends_with_the_last_time_that_is_not_after_until(recurrence: Recurrence) -> None:
    until = msgspec.structs.replace(recurrence, until_ms=NOW + 2 * HOUR)
    sooner = msgspec.structs.replace(recurrence, until_ms=NOW + 2 * HOUR - 1)

    assert recurrence.following(NOW, 3) == [NOW + HOUR, NOW + 2 * HOUR, NOW + 3 * HOUR]
    assert until.following(NOW, 3) == [NOW + HOUR, NOW + 2 * HOUR]
    assert sooner.following(NOW, 3) == [NOW + HOUR]
    assert until.last_before(NOW, NOW + DAY) == NOW + 2 * HOUR
    assert until.after(NOW + 2 * HOUR) is None
    assert recurrence.following(NOW, 0) == []


def test_an_interval_does_not_drift_and_does_not_begin_before_its_first_time() -> None:
    recurrence = Recurrence(7_000, None, NOW)

    assert recurrence.after(0) == NOW
    assert recurrence.after(NOW - 1) == NOW
    assert recurrence.after(NOW) == NOW + 7_000
    assert recurrence.after(NOW + 700_001) == NOW + 707_000


@pytest.mark.parametrize(
    "recurrence",
    [Recurrence(HOUR, None, NOW, jitter_ms=5 * HOUR), Recurrence(None, "0 * * * *", jitter_ms=5 * HOUR)],
)
def test_an_occurrence_is_due_before_the_next_one_is_planned_whatever_the_jitter(recurrence: Recurrence) -> None:
    planned = recurrence.following(NOW, 50)
    dues = [recurrence.due("a", one) for one in planned]

    assert all(one <= due < one + HOUR for one, due in zip(planned, dues, strict=True))
    assert max(due - one for one, due in zip(planned, dues, strict=True)) > HOUR // 2
    last = msgspec.structs.replace(recurrence, until_ms=planned[-1])
    assert last.jitter_at(planned[-1]) == 5 * HOUR


def test_rows_and_forwards_have_it_in_few_bytes_that_never_change() -> None:
    encode = msgspec.msgpack.Encoder().encode
    plain = Recurrence(60_000, None, NOW)
    full = Recurrence(None, "0 9 * * 1-5", 0, "Europe/Berlin", NOW, 3, "catch-up", 60_000, 500)

    assert encode(plain).hex() == "99cdea60c0cf0000019b76daa800c0c0c0ad63617463682d75702d6c617374c0c0"
    assert encode(full).hex() == (
        "99c0ab302039202a202a20312d3500ad4575726f70652f4265726c696ecf0000019b76daa80003a863617463682d7570cdea60cd01f4"
    )
    for recurrence in (plain, full):
        assert msgspec.msgpack.decode(encode(recurrence), type=Recurrence) == recurrence
    assert msgspec.msgpack.decode(b"\x92\xcd\x03\xe8\xc0", type=Recurrence) == Recurrence(1_000, None)
