"""Schedules with `scheduler-*` headers, whose key is the id."""

from dataclasses import replace

from tests.punctual.contract.foreign import ETF1, beside, but, decode

NAME = "etf1"


def test_the_documented_message_is_delivered_as_it_is_documented() -> None:
    asked = decode(NAME, ETF1)

    assert (asked.op, asked.id, asked.to, asked.due_ms) == (
        "schedule",
        "vid1-online",
        "online-videos",
        1_893_456_000_000,
    )
    assert (asked.key, asked.value) == (b"vid1", b'"video 1"')
    assert asked.headers == [
        *ETF1.headers,
        ("scheduler-timestamp", b"1607918336"),
        ("scheduler-key", b"vid1-online"),
        ("scheduler-topic", b"schedules"),
    ]


def test_a_null_value_cancels_whatever_its_headers_say() -> None:
    for headers in ([], ETF1.headers, [("scheduler-epoch", b"x")]):
        asked = decode(NAME, replace(ETF1, value=None, headers=headers))

        assert (asked.op, asked.id, asked.to, asked.due_ms, asked.headers) == ("cancel", "vid1-online", "", 0, [])


def test_an_empty_value_is_a_message() -> None:
    assert decode(NAME, replace(ETF1, value=b"")).value == b""


def test_the_first_header_of_a_name_wins_and_the_delivery_has_all_of_them() -> None:
    more = [("scheduler-epoch", b"x"), ("scheduler-target-key", b"x"), ("scheduler-target-topic", b"\xff")]
    twice = replace(ETF1, headers=[*ETF1.headers, *more])
    asked = decode(NAME, twice)

    assert (asked.to, asked.due_ms, asked.key) == ("online-videos", 1_893_456_000_000, b"vid1")
    assert asked.headers[:7] == twice.headers


def test_without_a_target_key_the_delivery_has_none() -> None:
    assert decode(NAME, but(ETF1, scheduler_target_key=None)).key is None


def test_the_past_is_due_at_once_unless_the_input_is_set_otherwise() -> None:
    past = but(ETF1, scheduler_epoch=b"1607918330")

    assert decode(NAME, past).due_ms == 1_607_918_330_000
    assert decode("etf1:PT6S", past).due_ms == 1_607_918_330_000
    assert decode("etf1:PT5S", replace(past, value=None)).op == "cancel"


def test_commands_take_the_key_for_the_id() -> None:
    now = decode(NAME, replace(ETF1, headers=[("delay-op", b"deliver-now")]))
    moved = decode(NAME, replace(ETF1, headers=[("delay-op", b"reschedule"), ("scheduler-epoch", b"1893456001")]))
    only_if = decode(NAME, beside(replace(ETF1, value=None), delay_if_due=b"1893456000000", delay_id=b"vid1-online"))

    assert (now.op, now.id, now.due_ms) == ("deliver-now", "vid1-online", ETF1.timestamp)
    assert (moved.op, moved.id, moved.due_ms) == ("reschedule", "vid1-online", 1_893_456_001_000)
    assert (only_if.op, only_if.if_due_ms) == ("cancel", 1_893_456_000_000)


def test_a_delivery_that_is_scheduled_again_is_a_message_of_its_own() -> None:
    again = beside(ETF1, delay_id=b"other", delay_due=b"1", delay_source=b"schedules-0-1")

    assert decode(NAME, again).id == "vid1-online"
