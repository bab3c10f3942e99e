"""Failed messages come back: a consumer in any language forwards them, a Faust app uses a decorator."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from punctual import DelayClient, exponential
from tests.harness.kafka import Record, now_ms, read
from tests.harness.waiting import eventually
from tests.integration.conftest import Run
from tests.integration.faust_app import FaustApp
from tests.integration.installation import ON_TIME_MS, Installation, late_ms, users

pytestmark = pytest.mark.core

BASE_MS = 300
ASKS = {"delay-retry": f"exponential {BASE_MS}ms 2 2s", "delay-max-attempts": "4"}


@pytest.fixture(scope="module")
def installation(run: Run) -> Iterator[Installation]:
    with run("retries") as made:
        yield made


def forward(installation: Installation, record: Record, to: str, **more: str) -> None:
    """Forward a failed record for a retry, as a consumer in any language does."""
    installation.requests.send(
        [*record.headers, ("delay-to", to), *ASKS.items(), *more.items()], record.key, record.value
    )
    installation.requests.flush()


def test_a_consumer_forwards_the_received_message_until_its_attempts_are_used_up(installation: Installation) -> None:
    to = installation.topic()
    installation.requests.send([("b", b"1"), ("a", None), ("b", b"2")], b"k", b"\x00v", topic=to)
    installation.requests.flush()
    dues = []
    for attempt in range(1, 5):
        *_, last = installation.wait_for(to, attempt)
        assert (last.key, last.value, users(last.headers)) == (b"k", b"\x00v", [("b", b"1"), ("a", None), ("b", b"2")])
        if attempt > 1:
            assert last.header("delay-attempt") == str(attempt)
            assert 0 <= late_ms(last) < ON_TIME_MS
            dues.append(int(last.header("delay-due")))
        forward(installation, last, to, **{"delay-error": f"HTTPError: {attempt}"})

    requests = read(installation.bootstrap, installation.requests.topic)
    asked_at = [one.timestamp_ms for one in requests if ("delay-to", to.encode()) in one.headers]
    assert [due - asked for due, asked in zip(dues, sorted(asked_at)[:3], strict=True)] == [
        BASE_MS,
        2 * BASE_MS,
        4 * BASE_MS,
    ]
    [letter] = installation.letters_for(1, to)
    assert letter.header("delay-reason") == "attempts-exhausted"
    assert "the last with: HTTPError: 4" in letter.header("delay-error")
    assert users(letter.headers) == [("b", b"1"), ("a", None), ("b", b"2")]


def test_a_record_that_is_forwarded_by_two_comes_back_once(installation: Installation) -> None:
    to = installation.topic()
    installation.requests.schedule("once", now_ms(), to, b"v")
    installation.requests.flush()
    [first] = installation.wait_for(to, 1)
    for partition in (0, 1, 2, 3):
        headers = [*first.headers, ("delay-to", to), ("delay-retry", "exponential 2s 2 1h")]
        installation.requests.send(headers, first.key, first.value, partition=partition)
    installation.requests.flush()

    _, again = installation.wait_for(to, 2)
    id_ = again.header("delay-id")
    assert id_.startswith(f"{first.header('delay-source')}@{first.header('delay-due')}#")
    installation.await_event("delivered", id_)
    assert [event["event"] for event in installation.events(id_)].count("replaced") == 3


async def test_each_occurrence_that_fails_comes_back_and_each_record_made_of_one(installation: Installation) -> None:
    to, derived, many = installation.topic(), installation.topic(), 10
    series = {"delay-at": str(now_ms() - many * 1_000), "delay-every": "PT1S", "delay-count": str(many)}
    said = {"delay-id": f"series-{to}", "delay-to": to, "delay-misfire": "catch-up", **series}
    installation.requests.send(said, b"k", b"v")
    installation.requests.flush()
    failed = installation.wait_for(to, many)
    assert len({record.header("delay-source") for record in failed}) == 1
    for number in range(many):
        installation.requests.send(failed[0].headers, b"k", b"%d" % number, topic=derived)
    installation.requests.flush()

    for record in (*failed, *installation.wait_for(derived, many)):
        forward(installation, record, record.topic)
    assert {one.header("delay-attempt") for one in installation.wait_for(to, 2 * many)[many:]} == {"2"}
    again = installation.wait_for(derived, 2 * many)[many:]
    assert {one.value for one in again} == {b"%d" % number for number in range(many)}

    backoff = exponential("300ms", 2, "2s")
    async with DelayClient(installation.bootstrap, app_id=installation.app_id) as client:
        for number, one in enumerate(again):
            place = SimpleNamespace(
                topic=derived, partition=0, offset=number, key=one.key, value=one.value, headers=failed[0].headers
            )
            await client.retry(place, backoff=backoff, max_attempts=8)
    third = installation.wait_for(derived, 3 * many)[2 * many :]
    assert {one.value for one in third} == {b"%d" % number for number in range(many)}


def test_a_faust_app_retries_failed_events_and_continues_with_others(installation: Installation) -> None:
    to, done = installation.topic(partitions=2), installation.topic()
    with FaustApp(installation, to, done, max_attempts=3, base="300ms") as app:
        for number in range(20):
            fails = number % 5  # of five, one never fails, one once, one twice, and two more often than is allowed
            installation.requests.send({"fails": str(fails)}, b"%d" % number, b"%d" % number, topic=to)
        installation.requests.flush()
        handled = installation.wait_for(done, 20 * 2 // 5 + 4, 60)
        letters = installation.letters_for(8, to)
        assert app.alive

    attempts = {int(record.value or b""): int(record.header("attempt")) for record in handled}
    assert attempts == {number: number % 5 + 1 for number in range(20) if number % 5 < 3}
    exhausted = {record.value: record for record in letters if record.header("delay-reason") == "attempts-exhausted"}
    assert {b"%d" % number for number in range(20) if number % 5 > 2} == exhausted.keys()
    assert "the last with: ValueError: number 3 fails" in exhausted[b"3"].header("delay-error")


def test_a_faust_app_that_is_killed_while_events_fail_loses_none(installation: Installation) -> None:
    to, done, count = installation.topic(partitions=2), installation.topic(), 300
    with FaustApp(installation, to, done, max_attempts=9, base="100ms") as app:
        for number in range(count):
            installation.requests.send({"fails": str(number % 3)}, b"%d" % number, b"%d" % number, topic=to)
        installation.requests.flush()
        for share in (20, 100, 200):
            installation.wait_for(done, share, 60)
            app.kill()
            app.start()

        def all_done() -> bool:
            return {int(record.value or b"") for record in installation.wait_for(done, 1)} == set(range(count))

        eventually(all_done, what="every event")


def test_an_event_is_not_acknowledged_before_it_is_handled(installation: Installation) -> None:
    to, done = installation.topic(), installation.topic()
    with FaustApp(installation, to, done, max_attempts=9, base="100ms") as app:
        installation.requests.send({"fails": "0"}, b"0", b"0", topic=to)
        installation.requests.send({"fails": "0", "dies": "once"}, b"1", b"1", topic=to)
        installation.requests.flush()
        eventually(lambda: not app.alive, what="the death of the app")
        app.kill()
        app.start()
        eventually(lambda: {record.value for record in installation.wait_for(done, 1)} == {b"0", b"1"}, what="both")
