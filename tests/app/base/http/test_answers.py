"""What answers mean, and for how long a host may ask to be left alone."""

import pytest

from app.base.http.answers import LONGEST_WAIT_MS, HttpOutcome, Meaning, answer_of

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def test_only_2xx_is_taken_and_only_410_is_never_tried_again() -> None:
    meanings = {status: answer_of(status, None, NOW).meaning for status in range(100, 600)}

    assert {status for status, meaning in meanings.items() if meaning is Meaning.TAKEN} == set(range(200, 300))
    assert {status for status, meaning in meanings.items() if meaning is Meaning.NEVER} == {410}


def test_an_overloaded_host_is_the_cause_itself() -> None:
    assert {status for status in range(100, 600) if answer_of(status, None, NOW).of_host} == {429, 502, 503, 504}


@pytest.mark.parametrize(
    ("said", "after_ms"),
    [
        ("120", 120_000),
        ("0", 0),
        (" 7 ", 7_000),
        ("Thu, 01 Jan 2026 00:01:00 GMT", 60_000),
        ("Thursday, 01-Jan-26 00:01:00 GMT", 60_000),
        ("Thu Jan  1 00:01:00 2026", 60_000),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0),
        ("Fri, 01 Jan 2027 00:00:00 GMT", LONGEST_WAIT_MS),
        ("99999999999999999999", LONGEST_WAIT_MS),
        ("999999999", LONGEST_WAIT_MS),
        ("soon", None),
        ("-5", None),
        ("\u0663", None),
        ("Thu, 99 Jan 2026 00:01:00 GMT", None),
        ("", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_bounded(said: str, after_ms: int | None) -> None:
    expected = HttpOutcome(Meaning.AGAIN, "HTTP 503", of_host=True, after_ms=after_ms, status=503)
    assert answer_of(503, said, NOW) == expected
