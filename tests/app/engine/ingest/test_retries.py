"""Retries as a partition takes them in: each attempt once, and a dead letter after the last."""

from punctual.contract.retry import copy_source
from tests.app.workbench import Workbench
from tests.punctual.contract.records import NOW

RETRY = {"delay_to": "orders", "delay_retry": "exponential 1s 2 1h", "delay_max_attempts": "3"}


def test_a_record_that_is_forwarded_twice_is_one_message(bench: Workbench) -> None:
    bench.ask(trace="1", delay_source="orders-0-17", **RETRY)
    bench.ask(NOW + 5, trace="1", delay_source="orders-0-17", **RETRY)

    assert bench.pending() == {"orders-0-17~2~orders": NOW + 1_005}
    assert [event["event"] for event in bench.events] == ["accepted", "accepted", "replaced"]


def test_a_retry_replaces_neither_the_message_that_it_was_nor_another_attempt(bench: Workbench) -> None:
    delivered = {"delay_due": "1", "delay_source": "delay-requests-0-9"}
    bench.schedule("reminder", NOW + 60_000)
    bench.ask(delay_id="reminder", **delivered, **RETRY)
    bench.ask(delay_id="reminder", **delivered, delay_attempt="2", **RETRY)

    record = copy_source("delay-requests-0-9", b"1", b"k", b"v")
    assert bench.pending() == {
        "reminder": NOW + 60_000,
        f"{record}~2~orders": NOW + 1_000,
        f"{record}~3~orders": NOW + 2_000,
    }


def test_records_that_share_the_headers_of_a_delivery_have_a_retry_each(bench: Workbench) -> None:
    delivered = {"delay_id": "series@1", "delay_source": "delay-requests-0-9", **RETRY}
    for due in ("1", "2", "3"):
        bench.ask(**delivered, delay_due=due)
    assert len(bench.pending()) == 3


def test_past_the_last_attempt_it_is_a_dead_letter_that_tells_the_last_error(bench: Workbench) -> None:
    bench.ask(trace="1", delay_id="a", delay_due="1", delay_attempt="3", delay_error="HTTPError: 503", **RETRY)

    [letter] = bench.sends
    headers = dict(letter.headers)
    assert (letter.topic, letter.key, letter.value) == ("delay-dead-letters", b"k", b"v")
    assert (headers["delay-reason"], headers["trace"]) == (b"attempts-exhausted", b"1")
    assert b"the last with: HTTPError: 503." in (headers["delay-error"] or b"")
    assert (headers["delay-attempt"], headers["delay-max-attempts"]) == (b"3", b"3")
    assert [(event["event"], event["reason"]) for event in bench.events] == [("refused", "attempts-exhausted")]
