"""Requests of other dialects in a partition: rows, commands, forwards, dead letters and callbacks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.steps.outcomes import Rejected
from punctual.contract import native, request
from punctual.contract.dialects.dialects import dialect_of
from punctual.contract.request import Reason
from tables import Entry
from tests.app.workbench import Workbench
from tests.punctual.contract.foreign import AIRTEL, ETF1
from tests.punctual.contract.records import NOW, FakeRecord

URL = "https://example.com/back"
INPUTS = "schedules=etf1,event_delayer_publisher=airtel,orders.delayed=deliver-after:orders"
DUE = NOW + 60_000


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    path, called = tmp_path / "bench.db", "https://example.com/*"
    bench = Workbench(path, DELAY_PARTITIONS="1", DELAY_INPUTS=INPUTS, DELAY_CALLBACKS=called)
    yield bench
    bench.assert_balanced()
    bench.close()


def airtel(offset: int, text: str) -> FakeRecord:
    return replace(AIRTEL, topic="event_delayer_publisher", partition=0, offset=offset, value=text.encode())


def etf1(offset: int, key: bytes | None = ETF1.key, value: bytes | None = ETF1.value) -> FakeRecord:
    return replace(ETF1, partition=0, offset=offset, timestamp=NOW, key=key, value=value)


def callback(bench: Workbench) -> Entry:
    [entry] = [entry for _, entry in bench.store.rows() if entry.url is not None]
    return entry


def test_a_key_that_is_an_id_replaces_and_cancels(bench: Workbench) -> None:
    bench.run(etf1(0))
    bench.run(etf1(1, value=b"new"))
    assert bench.pending() == {"vid1-online": 1_893_456_000_000}

    bench.run(etf1(2, value=None))
    assert bench.told() == [
        ("accepted", "schedules-0-0", None),
        ("accepted", "schedules-0-1", None),
        ("replaced", "schedules-0-0", "schedules-0-1"),
        ("cancelled", "schedules-0-1", "schedules-0-2"),
    ]


def test_a_native_command_reaches_a_message_of_another_dialect(bench: Workbench) -> None:
    bench.run(etf1(0))
    bench.now_ms += 1
    bench.command("reschedule", "vid1-online", delay_at=str(DUE))

    assert bench.pending() == {"vid1-online": DUE}


def test_what_lives_elsewhere_is_forwarded_as_a_request_like_any_other(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "other.db", number=3, DELAY_INPUTS=INPUTS)
    bench.run(etf1(0, key=b"b"))
    [forward] = bench.sends
    bench.close()

    asked = request.decode(forward.value or b"")
    assert (forward.topic, asked.id, asked.source, asked.input) == ("delay-forwards", "b", "schedules-0-0", "schedules")
    assert ("scheduler-topic", b"schedules") in asked.headers


def test_a_dead_letter_of_an_accepted_message_is_a_native_request(bench: Workbench) -> None:
    bench.run(etf1(0))
    bench.run(Rejected(bench.claim("vid1-online"), Reason.UNKNOWN_TOPIC, "It is gone."))
    [letter] = bench.sends

    asked = native.decode(FakeRecord(letter.headers, letter.key, letter.value))
    assert (asked.id, asked.to, asked.due_ms, asked.key) == ("vid1-online", "online-videos", 1_893_456_000_000, b"vid1")
    assert asked.headers[-1] == ("scheduler-topic", b"schedules")


def test_a_dead_letter_of_a_refused_record_is_the_original_record(bench: Workbench) -> None:
    bench.run(etf1(0, key=None))
    [letter] = bench.sends

    assert (letter.key, letter.value, letter.headers[:4]) == (None, ETF1.value, list(ETF1.headers))
    assert [name for name, _ in letter.headers[4:]] == ["delay-reason", "delay-error", "delay-source"]


def test_a_refusal_posts_the_json_back_as_it_came_to_whom_it_names(bench: Workbench) -> None:
    asked = airtel(0, f'{{"topic": "orders",\n"failurePostCallbackUrl": "{URL}", "postTime": "now"}}')
    bench.run(asked)
    posted = callback(bench)

    assert (posted.url, posted.value, posted.headers) == (URL, asked.value, [("delay-reason", b"malformed")])


def test_a_refusal_because_of_the_settings_names_the_path(bench: Workbench) -> None:
    url = "http://169.254.169.254/"
    bench.run(airtel(0, f'{{"topic":"orders","value":1,"postTime":{DUE},"failurePostCallbackUrl":"{url}"}}'))
    [letter] = bench.sends

    assert dict(letter.headers)["delay-reason"] == b"not-allowed"
    assert b"`$.failurePostCallbackUrl`" in (dict(letter.headers)["delay-error"] or b"")
    assert not list(bench.store.rows())


@pytest.mark.parametrize(
    "value", ["{}", '{"a":[1.10000000000000000000001,null]}', '"text"', '"{ }"', '"{}"', '"\\"quoted\\""', '""', "7"]
)
def test_a_message_that_fails_later_is_posted_back_so_that_it_can_be_sent_again(bench: Workbench, value: str) -> None:
    text = f'{{"topic":"orders","key":"k","value":{value},"headers":{{"a":"é"}},"postTime":{DUE}'
    asked = airtel(0, f'{text},"failurePostCallbackUrl":"{URL}"}}')
    bench.run(asked)
    bench.run(Rejected(bench.claim("event_delayer_publisher-0-0"), Reason.UNDELIVERABLE, "It is gone."))
    posted = callback(bench)

    assert posted.headers == [("delay-reason", b"undeliverable")]
    decode = dialect_of("airtel").decode
    assert decode(replace(asked, value=posted.value)) == decode(asked)


def test_a_body_that_does_not_fit_gives_way_to_the_usual_one_without_content(bench: Workbench) -> None:
    bench.limits.row = 2_000
    text = f'{{"topic":"orders","value":"{"v" * 3_000}","postTime":"x","failurePostCallbackUrl":"{URL}"}}'
    bench.run(airtel(0, text))

    assert b"left out" in (callback(bench).value or b"")
    assert callback(bench).headers == []


def test_without_destinations_valid_requests_are_refused_as_not_allowed(tmp_path: Path) -> None:
    trial = Workbench(tmp_path / "trial.db", DELAY_PARTITIONS="1", DELAY_INPUTS=INPUTS, DELAY_DESTINATIONS="")
    trial.run(etf1(0), etf1(1, value=None), etf1(2, key=b""))

    reasons = [dict(letter.headers)["delay-reason"] for letter in trial.sends]
    assert reasons == [b"not-allowed", b"bad-id"]
    trial.close()
