"""Failure callbacks wait in the table like messages, and are no messages."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from app.engine.steps import callbacks
from app.engine.steps.outcome_handler import wait_ms
from app.engine.steps.outcomes import Attempted, Called, Rejected
from app.settings.settings import Settings
from punctual.contract.request import Reason, Refusal
from tables import Entry, PartitionStore, keys
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW
from tests.tables.rows import assert_sound, image

URL = "https://example.com/back"
SOON = NOW + 60_000


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    bench = Workbench(tmp_path / "bench.db", DELAY_PARTITIONS="1", DELAY_CALLBACKS="https://example.com/*")
    yield bench
    bench.assert_balanced()
    assert_sound(bench.store)
    bench.close()


def waiting(bench: Workbench) -> list[tuple[int, Entry]]:
    return [(keys.due_of(row), entry) for row, entry in bench.store.rows() if entry.url is not None]


def test_a_rejected_message_calls_back_at_once_with_all_that_it_was(bench: Workbench) -> None:
    asked = bench.schedule("a", NOW - 5, delay_on_failure=URL, user=b"\xff")
    bench.run(Rejected(bench.claim("a"), Reason.UNKNOWN_TOPIC, "It is gone."))

    ((due, callback),) = waiting(bench)
    assert (due, callback.url, callback.to, callback.id) == (NOW, URL, "", "a")
    assert msgspec.json.decode(callback.value or b"") == {
        "id": "a",
        "topic": "orders",
        "key": "k",
        "value": "v",
        "headers": [["user", {"base64": "/w=="}]],
        "source": asked,
        "reason": "unknown-topic",
        "error": "It is gone.",
    }
    assert len(bench.sends) == 1
    assert bench.store.find("a") is None


def test_a_refused_request_calls_back_too(bench: Workbench) -> None:
    record = bench.ask(delay_to="orders", delay_at="soon", delay_on_failure=URL)

    ((due, callback),) = waiting(bench)
    assert (due, callback.url, callback.source) == (NOW, URL, source(record))
    assert msgspec.json.decode(callback.value or b"")["reason"] == "malformed"


@pytest.mark.parametrize("url", ["http://169.254.169.254/", b"\xff", "", None])
def test_a_url_that_the_settings_do_not_allow_is_not_called(bench: Workbench, url: str | bytes | None) -> None:
    bench.ask(delay_to="orders", delay_at="soon", delay_on_failure=url)

    assert waiting(bench) == []
    assert len(bench.sends) == 1


def test_a_new_message_may_have_the_id_of_a_pending_callback(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_on_failure=URL)
    bench.run(Rejected(bench.claim("a"), Reason.UNKNOWN_TOPIC, "It is gone."))
    bench.schedule("a", SOON)
    bench.command("reschedule", "a", delay_at=str(SOON + 1))

    assert bench.pending() == {"a": SOON + 1}
    assert len(waiting(bench)) == 1


def test_a_callback_never_takes_the_place_of_its_message(bench: Workbench, tmp_path: Path) -> None:
    restored = PartitionStore(tmp_path / "restored.db")

    def replay() -> None:
        restored.replay(bench.changelog[restored.offset :], len(bench.changelog), NOW)

    bench.schedule("a", NOW, delay_on_failure=URL)
    replay()
    bench.run(Rejected(bench.claim("a"), Reason.UNKNOWN_TOPIC, "It is gone."))  # in the millisecond in which it is due
    replay()
    ((row, _),) = bench.store.rows()
    bench.run(Called(bench.claim_row(row)))
    replay()

    assert image(restored) == image(bench.store)
    restored.close()


@pytest.mark.parametrize(
    ("pattern", "url", "admitted"),
    [
        ("*", "http://anywhere.example/", True),
        ("*", "http://anywhere/", False),
        ("*", "http://10.0.0.5/", False),
        ("*", "http://anywhere.example:8080/", False),
        ("*", "", False),
        ("*", "anywhere", False),
        ("https://example.com", "https://example.com/any?thing", True),
        ("https://example.com", "http://example.com/", False),
        ("https://example.com/hooks/*", "https://example.com/hooks/1", True),
        ("https://example.com/hooks/*", "https://example.com/hooks/../admin", False),
        ("https://example.com/hooks/*", "https://example.com/hooks/v1.2/a%20b?next=%2Fa%2F..", True),
        ("https://example.com/hooks/*", "https://example.com/hooks/%2e%2e/admin", False),
        ("https://example.com/hooks/*", "https://example.com/hooks/..%2Fadmin", False),
        ("https://example.com/hooks/*", "https://example.com/hooks/..%5cadmin", False),
        ("https://example.com/hooks/*", "https://example.com/hooks/..\\admin", False),
        ("https://example.com/hooks/*", "https://example.com/hooks/%252e%252E%252fadmin", False),
        ("https://example.com/hooks/*", "https://example.com/hooks/..;/admin", False),
        ("https://example.com", "https://example.com/a%2Fb", True),
        ("https://*.example.com/*", "https://a.example.com/", True),
        ("https://*.example.com/*", "https://10.0.0.5/.example.com/", False),
        ("https://*.example.com/*", "https://10.0.0.5\\.example.com/", False),
        ("https://example.com*", "https://example.com@10.0.0.5/", False),
        ("http://127.0.0.1:80*", "http://127.0.0.1:8080/", True),
    ],
)
def test_a_pattern_admits_hosts_and_paths_each_for_itself(pattern: str, url: str, *, admitted: bool) -> None:
    with nullcontext() if admitted else pytest.raises(Refusal):
        callbacks.check(
            url, Settings.from_env({"DELAY_CALLBACKS": pattern}).destinations.callback_list("any"), "delay-on-failure"
        )


def test_a_callback_that_is_taken_is_gone_without_an_event(bench: Workbench) -> None:
    bench.ask(delay_to="orders", delay_at="soon", delay_on_failure=URL)
    told = len(bench.events)
    ((row, _),) = bench.store.rows()
    bench.run(Called(bench.claim_row(row)))

    assert waiting(bench) == []
    assert len(bench.events) == told


def test_a_clock_that_has_jumped_leaves_callbacks_at_their_times(bench: Workbench) -> None:
    bench.schedule("a", NOW - 5, delay_on_failure=URL)
    bench.now_ms = NOW + (hour := 3_600_000)
    bench.ahead_ms = hour
    bench.run(Rejected(bench.claim("a"), Reason.UNKNOWN_TOPIC, "It is gone."))
    ((row, callback),) = bench.store.rows()
    assert keys.due_of(row) == NOW
    bench.run(Attempted(bench.claim_row(row), "HTTP 500"))

    ((due, _),) = waiting(bench)
    assert due == NOW + wait_ms(1, callback.source)


def test_a_callback_that_is_not_taken_is_tried_again_ever_later_for_half_a_day(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.ask(delay_to="orders", delay_at="soon", delay_on_failure=URL)
    waits = []
    while waiting(bench):
        ((row, _),) = bench.store.rows()
        bench.now_ms = keys.due_of(row)
        bench.run(Attempted(bench.claim_row(row), "HTTP 500"))
        waits += [(due - bench.now_ms) // 1000 for due, _ in waiting(bench)]

    assert all(0.75 * 2**n - 1 <= wait <= 1.25 * 2**n for n, wait in enumerate(waits[:5]))
    assert 0.75 * 3600 <= max(waits) <= 1.25 * 3600
    assert 10 * 3600 < sum(waits) < 14 * 3600
    assert caplog.messages == [
        f"the failure callback of delay-requests-0-0 is abandoned after {len(waits) + 1} attempts: HTTP 500"
    ]


def test_a_callback_that_would_be_too_large_as_json_leaves_the_message_out(bench: Workbench) -> None:
    bench.limits.row = 5_000
    record = bench.log.record(delay_to="orders", delay_at="soon", delay_on_failure=URL)
    record.value = b"\0" * 2_000  # six times as long in JSON
    bench.run(record)

    ((_, callback),) = waiting(bench)
    said = msgspec.json.decode(callback.value or b"")
    assert (said["key"], said["value"], said["headers"]) == (None, None, [])
    assert "Key, value and headers are left out, because the callback" in said["error"]


def test_a_callback_that_is_too_large_without_its_message_is_not_stored(bench: Workbench) -> None:
    bench.limits.row = 200
    bench.run(bench.log.record(delay_to="o" * 249, delay_at="soon", delay_on_failure=URL))

    assert waiting(bench) == []
    assert len(bench.sends) == 1  # its dead letter


@pytest.mark.parametrize("url", ["http://[:]@", "http://[v%]@", "http://[1%]@", "http://" + "é." * 330_000])
@pytest.mark.parametrize("at", [str(SOON), "soon"])
def test_a_url_that_makes_no_sense_is_refused_at_once(bench: Workbench, url: str, at: str) -> None:
    began = time.process_time()
    record = bench.ask(delay_to="orders", delay_at=at, delay_on_failure=url)

    assert bench.events[-1]["source"] == source(record)
    assert bench.events[-1]["event"] == "refused"
    assert not waiting(bench)
    assert time.process_time() - began < 5


def test_a_record_that_imitates_the_cold_tier_cannot_call_urls_that_the_settings_forbid(bench: Workbench) -> None:
    bench.schedule(
        "a", SOON, delay_source="x-0-1", delay_parked=f"{NOW},{NOW}", delay_on_failure="http://169.254.169.254/token"
    )

    assert bench.events[-1]["event"] == "refused"
    assert not waiting(bench)


def series(bench: Workbench) -> str:
    return bench.schedule("a", NOW, delay_every="PT1S", delay_on_failure=URL)


def fail(bench: Workbench) -> Rejected:
    return Rejected(bench.claim("a"), Reason.UNKNOWN_TOPIC, "It is gone.")


def test_callbacks_of_two_occurrences_that_are_tried_again_in_one_step_both_wait(bench: Workbench) -> None:
    asked = series(bench)
    bench.run(fail(bench))
    bench.now_ms += 1_000
    bench.run(fail(bench))
    rows = [row for row, entry in bench.store.rows() if entry.url is not None]
    bench.run(*(Attempted(bench.claim_row(row), "HTTP 500") for row in rows))

    assert sorted(callback.id for _, callback in waiting(bench)) == [f"a@{NOW}", f"a@{NOW + 1_000}"]
    assert sorted(callback.source for _, callback in waiting(bench)) == [f"{asked}@{NOW}", f"{asked}@{NOW + 1_000}"]
    assert [callback.attempts for _, callback in waiting(bench)] == [1, 1]


def test_a_callback_does_not_take_the_place_of_the_next_occurrence(bench: Workbench) -> None:
    series(bench)
    bench.run(fail(bench))
    ((row, _),) = ((row, entry) for row, entry in bench.store.rows() if entry.url is not None)
    due = bench.pending()["a"]
    bench.now_ms = due - _wait(bench, row)  # its next try is due when the next occurrence is
    bench.run(Attempted(bench.claim_row(row), "HTTP 500"))

    assert bench.pending() == {"a": due}
    assert [when for when, _ in waiting(bench)] == [due + 1]
    bench.command("cancel", "a")
    assert bench.pending() == {}
    assert len(waiting(bench)) == 1


def test_an_occurrence_does_not_take_the_place_of_a_callback(bench: Workbench) -> None:
    series(bench)
    bench.run(fail(bench))
    ((row, _),) = ((row, entry) for row, entry in bench.store.rows() if entry.url is not None)
    bench.now_ms = NOW + 2_000 - _wait(bench, row)
    bench.run(Attempted(bench.claim_row(row), "HTTP 500"))
    bench.run(Rejected(bench.claim("a"), Reason.UNKNOWN_TOPIC, "It is gone."))

    assert [(when, callback.attempts) for when, callback in waiting(bench) if callback.attempts] == [(NOW + 2_000, 1)]
    assert bench.pending() == {"a": NOW + 2_001}


def _wait(bench: Workbench, row: bytes) -> int:
    callback = bench.store.entry(row)
    assert callback is not None
    return wait_ms(1, callback.source)
