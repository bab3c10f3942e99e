"""The effect of a failed attempt on a message, and the time of the next one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.steps.outcome_handler import LONGEST_MS, wait_ms
from app.engine.steps.outcomes import Attempted, Delivered, Rejected
from punctual.contract.request import Reason
from tables import Entry, PartitionStore, keys
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW, FakeRecord
from tests.tables.rows import assert_sound, image

URL = "https://hooks.example.com/t0ken?s=1"
ORIGIN = "https://hooks.example.com"
DAY = 86_400_000


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    bench = Workbench(
        tmp_path / "bench.db", DELAY_PARTITIONS="1", DELAY_HTTP_DESTINATIONS="*", DELAY_CALLBACKS="https://*"
    )
    yield bench
    bench.assert_balanced()
    assert_sound(bench.store)
    assert all("t0ken" not in str(event) for event in bench.events)
    bench.close()


def ask(bench: Workbench, to: str, **said: str) -> str:
    return source(bench.ask(delay_id="a", delay_to=to, delay_at=str(NOW), **said))


def row(bench: Workbench, id_: str = "a") -> tuple[bytes, Entry]:
    key = bench.store.find(id_)
    assert key is not None
    entry = bench.store.entry(key)
    assert entry is not None
    return key, entry


def fail(bench: Workbench, why: str = "HTTP 500", after_ms: int | None = None, *, never: bool = False) -> None:
    bench.run(Attempted(bench.claim("a"), why, after_ms, never))


@given(st.integers(1, 1_000), st.text(max_size=20))
def test_waits_double_from_a_second_to_an_hour_give_or_take_a_quarter(failed: int, source_: str) -> None:
    average_ms = min(LONGEST_MS, 1_000 * 2 ** (failed - 1))

    assert 0.75 * average_ms - 1 <= wait_ms(failed, source_) <= 1.25 * average_ms + 1
    assert wait_ms(failed, source_) == wait_ms(failed, source_)
    assert wait_ms(failed, source_, 10**7) == 10**7
    assert wait_ms(failed, source_, 0) == wait_ms(failed, source_)


def test_waits_of_many_messages_spread() -> None:
    waits = [wait_ms(10, f"delay-requests-0-{offset}") for offset in range(1_000)]

    assert min(waits) < 0.77 * 512_000
    assert max(waits) > 1.23 * 512_000
    assert abs(sum(waits) / 1_000 - 512_000) < 10_000


def test_a_failed_try_is_in_the_row_which_stays_at_its_due_time(bench: Workbench) -> None:
    ask(bench, URL)
    bench.now_ms += 50
    fail(bench)
    key, entry = row(bench)

    assert keys.due_of(key) == NOW
    assert (entry.to, entry.attempts, entry.next_try_ms) == (URL, 1, NOW + 50 + wait_ms(1, entry.source))
    assert bench.claims == {}
    event = bench.events[-1]
    assert (event["event"], event["attempts"], event["reason"], event["to"]) == ("attempted", 1, "HTTP 500", ORIGIN)
    assert bench.store.counts.destinations == {ORIGIN: 1}


def test_a_restored_row_waits_as_before(bench: Workbench, tmp_path: Path) -> None:
    ask(bench, URL)
    fail(bench)
    restored = PartitionStore(tmp_path / "restored.db")
    restored.replay(bench.changelog, len(bench.changelog), NOW)

    assert image(restored) == image(bench.store)
    assert list(restored.rows()) == list(bench.store.rows())
    restored.close()


def test_a_host_that_asks_for_longer_gets_it(bench: Workbench) -> None:
    ask(bench, URL)
    fail(bench, after_ms=90_000)

    assert row(bench)[1].next_try_ms == NOW + 90_000


def test_it_is_delivered_without_a_place(bench: Workbench) -> None:
    ask(bench, URL)
    fail(bench)
    bench.run(Delivered([bench.claim("a")], 0, "", 0, NOW + 7))

    event = bench.events[-1]
    assert (event["event"], event["late"], event["to"]) == ("delivered", 7, ORIGIN)
    assert "delivered" not in event
    assert bench.store.counts.destinations == {}


def test_it_is_given_up_at_the_first_failure_past_its_time_and_tried_once_at_the_end(bench: Workbench) -> None:
    ask(bench, URL, delay_on_failure="https://back.example.com/")
    bench.now_ms = NOW + 3 * DAY - 1
    fail(bench, after_ms=DAY)
    assert row(bench)[1].next_try_ms == NOW + 3 * DAY
    bench.now_ms = NOW + 3 * DAY
    fail(bench, "timeout")

    assert [event["event"] for event in bench.events] == ["accepted", "attempted", "attempted", "rejected"]
    [letter] = bench.sends
    said = {name: (value or b"").decode() for name, value in letter.headers}
    assert (said["delay-to"], said["delay-reason"]) == (URL, "undeliverable")
    assert said["delay-error"] == (
        "https://hooks.example.com has not accepted the message within three days of its due time, in 2 attempts. "
        "The last failure: timeout. Fix the cause, then send the message again."
    )
    [(_, callback)] = bench.store.rows()
    assert callback.url == "https://back.example.com/"


def test_a_clock_that_has_jumped_gives_no_message_up_early(bench: Workbench) -> None:
    ask(bench, URL)
    bench.now_ms, bench.ahead_ms = NOW + 4 * DAY, 4 * DAY
    fail(bench)
    assert row(bench)[1].attempts == 1


def test_410_gives_it_up_at_once(bench: Workbench) -> None:
    ask(bench, URL)
    fail(bench, "HTTP 410", never=True)

    assert [event["event"] for event in bench.events] == ["accepted", "attempted", "rejected"]
    assert "accepts no more messages at this URL (HTTP 410, after 1 attempt)" in str(bench.sends[0].headers)


def test_a_command_while_it_is_posted_is_decided_by_the_answer(bench: Workbench) -> None:
    ask(bench, URL)
    claimed = bench.claim("a")
    bench.command("cancel", "a")
    bench.run(Attempted(claimed, "HTTP 500"))
    assert [event["event"] for event in bench.events] == ["accepted", "attempted", "cancelled"]
    ask(bench, URL)
    claimed = bench.claim("a")
    bench.command("cancel", "a")
    bench.run(Delivered([claimed], 0, "", 0, NOW))
    assert [event["event"] for event in bench.events][-2:] == ["delivered", "conflict"]


def test_a_command_between_tries_applies_at_once(bench: Workbench) -> None:
    ask(bench, URL)
    fail(bench)
    bench.command("reschedule", "a", delay_at=str(NOW + 5_000))
    key, entry = row(bench)
    assert (keys.due_of(key), entry.attempts, entry.next_try_ms) == (NOW + 5_000, 0, None)
    fail(bench)
    bench.command("cancel", "a")
    assert bench.pending() == {}


def test_a_command_in_the_very_step_of_the_failure_applies_too(bench: Workbench) -> None:
    ask(bench, URL)
    claimed = bench.claim("a")
    record = bench.log.record(bench.now_ms, delay_op="cancel", delay_id="a")
    bench.run(Attempted(claimed, "HTTP 500"), record)

    assert [event["event"] for event in bench.events] == ["accepted", "attempted", "cancelled"]
    assert bench.pending() == {}


def test_a_message_that_waits_for_a_retry_can_be_replaced(bench: Workbench) -> None:
    first = ask(bench, URL)
    fail(bench)
    second = ask(bench, f"{URL}2", delay_dedupe="60000")
    assert bench.told()[-1] == ("replaced", first, second)
    assert row(bench)[1].attempts == 0
    bench.run(Delivered([bench.claim("a")], 0, "", 0, NOW))
    ask(bench, f"{URL}2", delay_dedupe="60000")
    assert bench.events[-1]["event"] == "duplicate"


def test_it_is_dead_lettered_like_any_other(bench: Workbench) -> None:
    ask(bench, URL)
    bench.run(Rejected(bench.claim("a"), Reason.NOT_ALLOWED, "It is not allowed any more."))
    again = {name: value for name, value in bench.sends[-1].headers if name not in ("delay-reason", "delay-error")}
    bench.ask(**{name.replace("-", "_"): value for name, value in again.items()})

    assert row(bench)[1].to == URL


def test_it_crosses_partitions_as_it_is(bench: Workbench) -> None:
    bench.run(bench.from_elsewhere(7, NOW, delay_to=URL, delay_at=str(NOW), delay_id="a"))

    assert row(bench)[1].to == URL


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("HTTPS://Hooks.Example.COM:443/a/../b?x=1#part", "https://hooks.example.com/b?x=1"),
        ("https://hooks.example.com", "https://hooks.example.com"),
        ("https://h\u00f6oks.example.com/\u00e9", "https://xn--hoks-5qa.example.com/%C3%A9"),
    ],
)
def test_a_url_is_stored_as_it_will_be_requested(bench: Workbench, asked: str, kept: str) -> None:
    ask(bench, asked)

    assert row(bench)[1].to == kept


@pytest.mark.parametrize(
    ("said", "reason", "why"),
    [
        (
            {"delay_to": "http://hooks.example.com/"},
            "not-allowed",
            "for requests on delay-requests: it is not on the list of allowed URLs",
        ),
        (
            {"delay_to": "https://a.internal/"},
            "not-allowed",
            "it has a host in a private network that no pattern names",
        ),
        ({"delay_to": "https://u:p@example.com/"}, "malformed", "delay-to contains a user or a password"),
        (
            {"delay_to": URL, "delay_to_partition": "0"},
            "malformed",
            "delay-to is a URL, but delay-to-partition works only with topics",
        ),
        (
            {"delay_to": URL, "delay_to_cluster": "emea"},
            "malformed",
            "delay-to is a URL, but delay-to-cluster works only with topics",
        ),
    ],
)
def test_refusals_are_sentences_without_the_url(bench: Workbench, said: dict[str, str], reason: str, why: str) -> None:
    record = bench.ask(delay_at="0", **said)

    assert bench.events[-1]["reason"] == reason
    headers = {name: (value or b"").decode() for name, value in bench.sends[-1].headers}
    assert why in headers["delay-error"]
    assert "t0ken" not in headers["delay-error"]
    assert headers["delay-source"] == source(record)


def test_an_input_may_have_urls_of_its_own(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", DELAY_HTTP_DESTINATIONS="orders:https://a.example.com", DELAY_PARTITIONS="1")
    bench.ask(delay_to="https://a.example.com/", delay_at="0")
    assert bench.events[-1]["event"] == "refused"
    assert bench.settings.destinations.url_list("orders").allowed("https://a.example.com/").named
    bench.close()


def test_the_same_message_is_known_again_while_it_is_tried_again(bench: Workbench) -> None:
    ask(bench, URL, delay_dedupe="60000")
    fail(bench)
    claimed = bench.claim("a")
    ask(bench, URL, delay_dedupe="60000")
    assert bench.events[-1]["event"] == "duplicate"
    bench.run(Delivered([claimed], 0, "", 0, NOW))
    assert bench.pending() == {}


def test_other_dialects_may_name_a_url_too(tmp_path: Path) -> None:
    bench = Workbench(
        tmp_path / "x.db", DELAY_HTTP_DESTINATIONS="*", DELAY_PARTITIONS="1", DELAY_INPUTS="a=airtel,c=countdown,e=etf1"
    )
    at = str(NOW // 1000 + 60).encode()
    headers = [("scheduler-epoch", at), ("scheduler-target-topic", URL.encode()), ("scheduler-target-key", b"k")]
    bench.run(FakeRecord([], None, f'{{"topic":"{URL}","value":"v","postTime":{NOW}}}'.encode(), "a", 0, 0, NOW))
    bench.run(FakeRecord([], None, f'{{"topic":"{URL}","message":"v","countdown":5}}'.encode(), "c", 0, 0, NOW))
    bench.run(FakeRecord(headers, b"id", b"v", "e", 0, 0, NOW))

    assert [entry.to for _, entry in bench.store.rows()] == [URL] * 3
    bench.close()


def test_a_clock_that_has_jumped_puts_no_try_off(bench: Workbench) -> None:
    ask(bench, URL)
    bench.now_ms += DAY
    bench.ahead_ms = DAY
    fail(bench)
    _, entry = row(bench)

    assert entry.next_try_ms == NOW + wait_ms(1, entry.source)
