"""Unacceptable requests become dead letters with a reason, a sentence and all that was sent; neighbours go on."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient

from tests.harness.kafka import Record, create_topic, ends, now_ms
from tests.harness.waiting import LIMIT_S, ask_until, crowd
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, Installation, late_ms

pytestmark = pytest.mark.core

Headers = list[tuple[str, bytes | None]]
MIB = 1 << 20


class Case(NamedTuple):
    reason: str
    says: str
    change: dict[str, bytes | None]
    again: tuple[tuple[str, bytes], ...] = ()


#: The changes to a correct request: None leaves a header out, `again` comes at the end. A message for an unknown topic
#: is accepted, and rejected if the topic does not appear within some seconds.
_HOPED = "a topic that is not there"
CASES = {
    "an unknown header": Case("malformed", "delay-topic", {"delay-topic": b"x"}),
    "an unknown operation": Case("malformed", "schedule, cancel", {"delay-op": b"explode"}),
    "a time that is none": Case("malformed", "RFC 3339", {"delay-at": b"tomorrow", "delay-after": None}),
    "a time without a zone": Case("malformed", "zone", {"delay-at": b"2030-01-01T00:00:00", "delay-after": None}),
    "a time in seconds": Case("malformed", "seconds", {"delay-at": b"1893456000", "delay-after": None}),
    "a delay that is none": Case("malformed", "ISO 8601", {"delay-after": b"1 hour"}),
    "a negative delay": Case("malformed", "ISO 8601", {"delay-after": b"-5"}),
    "a partition that is no number": Case("malformed", "whole number", {"delay-to-partition": b"one"}),
    "a policy without a limit": Case("malformed", "delay-max-late", {"delay-if-late": b"drop"}),
    "a policy that is none": Case("malformed", "dead-letter", {"delay-max-late": b"1", "delay-if-late": b"shrug"}),
    "a header that is no text": Case("malformed", "UTF-8", {"delay-to": b"\xff"}),
    "a header twice": Case("malformed", "twice", {}, (("delay-to", b"x"),)),
    "no destination": Case("missing-destination", "delay-to", {"delay-to": None}),
    "an empty destination": Case("missing-destination", "delay-to", {"delay-to": b""}),
    "no due time": Case("missing-due", "delay-after", {"delay-after": None}),
    "two due times": Case("ambiguous-due", "both", {"delay-at": b"1"}),
    "a due time twice": Case("ambiguous-due", "twice", {}, (("delay-after", b"1"),)),
    "an empty id": Case("bad-id", "1 to 256", {"delay-id": b""}),
    "a long id": Case("bad-id", "257", {"delay-id": b"i" * 257}),
    "an id that is no text": Case("bad-id", "UTF-8", {"delay-id": b"\xff"}),
    "a command without an id": Case("bad-id", "delay-id", {"delay-op": b"cancel"}),
    "a due time too far away": Case("too-far", "the maximum delay", {"delay-after": b"P1828D"}),
    "a due time in another age": Case("too-far", "the maximum delay", {"delay-at": b"9" * 15, "delay-after": None}),
    _HOPED: Case("unknown-topic", "Create it", {"delay-to": b"*-missing"}),
    "a partition that is not there": Case("unknown-topic", "0 to 1", {"delay-to-partition": b"2"}),
    "a name that no topic can have": Case("unknown-topic", "letters", {"delay-to": b"*-\x00 "}),
    "a name longer than the protocol": Case(
        "unknown-topic", "is not a valid topic name", {"delay-to": b"*-" + b"x" * 40_000}
    ),
    "a cluster that is not there": Case("unknown-cluster", "DELAY_CLUSTERS", {"delay-to-cluster": b"mars"}),
    "a topic that is not on the list": Case("not-allowed", "DELAY_DESTINATIONS", {"delay-to": b"elsewhere"}),
    "the requests topic": Case("not-allowed", "internal", {"delay-to": b"*-requests"}),
    "another input": Case("not-allowed", "internal", {"delay-to": b"*-extra"}),
    "the forwards": Case("not-allowed", "internal", {"delay-to": b"*-forwards"}),
    "the changelog": Case("not-allowed", "internal", {"delay-to": b"*-delays-changelog"}),
    "the events": Case("not-allowed", "internal", {"delay-to": b"*-events"}),
    "the progress": Case("not-allowed", "internal", {"delay-to": b"*-progress"}),
    "the dead letters": Case("not-allowed", "internal", {"delay-to": b"*-dead-letters"}),
    "a topic of Kafka's own": Case("not-allowed", "internal", {"delay-to": b"__consumer_offsets"}),
}


@pytest.fixture(scope="module")
def installation(bootstrap: str, run: Run) -> Iterator[Installation]:
    def before(app_id: str) -> None:
        create_topic(bootstrap, f"{app_id}-extra", 4, message_timestamp_type="CreateTime")

    def env(app_id: str) -> dict[str, str]:
        return {"DELAY_INPUTS": f"{app_id}-extra=native", "DELAY_DESTINATIONS": f"{app_id}-*,__*"}

    with run("letters", before=before, env=env) as made:
        yield made


class Poisoned(NamedTuple):
    #: The offset of the first request.
    begin: int
    sent: dict[str, Headers]
    dead_letters: dict[str, Record]
    neighbours: list[Record]


@pytest.fixture(scope="module")
def poisoned(installation: Installation) -> Poisoned:
    """Every case on one partition, each between two good requests, all in one burst."""
    to, due = installation.topic(2), now_ms() + int(1_500 * crowd())
    [begin] = [end for number, end in ends(installation.bootstrap, installation.requests.topic).items() if number == 0]
    good = {"delay-to": to, "delay-at": str(due), "delay-to-partition": "0"}
    sent: dict[str, Headers] = {}
    for name, case in CASES.items():
        headers: dict[str, bytes | None] = {
            "delay-to": to.encode(),
            "delay-after": b"PT1H",
            "user": b"\xff",
            **case.change,
        }
        pairs = [
            (name, value.replace(b"*", installation.app_id.encode(), 1))
            for name, value in headers.items()
            if value is not None
        ]
        sent[name] = [*pairs, *case.again]
        installation.requests.send(good, name.encode(), b"neighbour", partition=0)
        installation.requests.send(sent[name], name.encode(), b"\x00 original", partition=0)
    installation.requests.flush()
    dead_letters = installation.dead_letters(*(name.encode() for name in CASES))
    neighbours = installation.wait_for(to, len(CASES))
    return Poisoned(begin, sent, {(key or b"").decode(): record for key, record in dead_letters.items()}, neighbours)


@pytest.mark.parametrize("name", CASES)
def test_an_invalid_request_is_a_dead_letter_with_its_reason(name: str, poisoned: Poisoned) -> None:
    dead_letter = poisoned.dead_letters[name]

    assert dead_letter.header("delay-reason") == CASES[name].reason
    sentence = dead_letter.header("delay-error")
    assert CASES[name].says in sentence
    assert sentence.endswith((".", "?"))
    assert len(sentence) < 500


@pytest.mark.parametrize("name", sorted(CASES.keys() - {_HOPED}))
def test_a_dead_letter_is_the_record_as_it_was_sent(name: str, poisoned: Poisoned, installation: Installation) -> None:
    dead_letter = poisoned.dead_letters[name]

    assert (dead_letter.key, dead_letter.value) == (name.encode(), b"\x00 original")
    assert dead_letter.headers[:-3] == poisoned.sent[name]
    assert [header for header, _ in dead_letter.headers[-3:]] == ["delay-reason", "delay-error", "delay-source"]
    place = poisoned.begin + 2 * list(CASES).index(name) + 1
    assert dead_letter.header("delay-source") == f"{installation.requests.topic}-0-{place}"


def test_neighbours_of_invalid_requests_are_delivered_on_time(poisoned: Poisoned) -> None:
    assert [record.key for record in poisoned.neighbours] == [name.encode() for name in CASES]
    assert all(0 <= late_ms(record) <= ON_TIME_MS for record in poisoned.neighbours)


def test_no_topic_is_made_up(poisoned: Poisoned, installation: Installation) -> None:
    assert poisoned.dead_letters
    there = AdminClient({"bootstrap.servers": installation.bootstrap}).list_topics(timeout=LIMIT_S).topics
    assert f"{installation.app_id}-missing" not in there
    assert "elsewhere" not in there


def test_a_refused_request_tells_one_event_and_no_life(poisoned: Poisoned, installation: Installation) -> None:
    for name, dead_letter in poisoned.dead_letters.items():
        source = dead_letter.header("delay-source")
        if name == _HOPED:
            events = ask_until(
                lambda of=source: installation.events_of(of),  # type: ignore[misc]
                lambda events: len(events) >= 2,
                "both events",
            )
            assert [(event["event"], event.get("reason")) for event in events] == [
                ("accepted", None), ("rejected", "unknown-topic"),
            ]  # fmt: skip
            continue
        (event,) = ask_until(lambda of=source: installation.events_of(of), bool, f"the event of {source}")  # type: ignore[misc]
        assert set(event) == {"event", "id", "at", "source", "reason"}
        assert (event["event"], event["id"], event["reason"]) == ("refused", source, CASES[name].reason)


def test_a_record_from_the_future_has_a_bad_timestamp(installation: Installation) -> None:
    to, key = installation.topic(), b"from the future"
    for ahead_ms, value in ((30_000, b"soon"), (300_000, b"too soon")):
        stamp = now_ms() + ahead_ms
        headers = {"delay-to": to, "delay-at": "0"}
        installation.requests.send(headers, key, value, topic=f"{installation.app_id}-extra", timestamp_ms=stamp)
    installation.requests.flush()

    assert [record.value for record in installation.wait_for(to, 1)] == [b"soon"]
    dead_letter = installation.dead_letters(key)[key]
    assert (dead_letter.value, dead_letter.header("delay-reason")) == (b"too soon", "bad-timestamp")
    assert "more than a minute ahead" in dead_letter.header("delay-error")
    assert dead_letter.header("delay-source").startswith(f"{installation.app_id}-extra-")


def test_a_record_from_the_past_may_be_due_soon_and_its_limit_counts_from_now(installation: Installation) -> None:
    to, extra, stamp = installation.topic(), f"{installation.app_id}-extra", now_ms() - 6 * 365 * 86_400_000
    for ahead_ms, value in ((500, b"soon"), (1_827 * 86_400_000 + 60_000, b"too far")):
        headers = {"delay-to": to, "delay-at": str(now_ms() + ahead_ms)}
        installation.requests.send(headers, b"from the past", value, topic=extra, timestamp_ms=stamp)
    installation.requests.flush()

    assert [record.value for record in installation.wait_for(to, 1)] == [b"soon"]
    [dead_letter] = installation.dead_letters(b"from the past").values()
    assert (dead_letter.value, dead_letter.header("delay-reason")) == (b"too far", "too-far")


def test_a_message_larger_than_the_changelog_allows_is_too_large(installation: Installation) -> None:
    """The input's limit has been raised since the start, so that it accepts records that are too large for other
    topics."""
    installation.alter(installation.requests.topic, max_message_bytes=str(16 * MIB))
    to = installation.topic(max_message_bytes=str(16 * MIB))
    good = {"delay-to": to, "delay-after": "0", "delay-to-partition": "0"}
    elsewhere = {**good, "delay-id": installation.new_id(home=3)}
    large: dict[bytes | None, tuple[dict[str, str], bytes, bytes | None]] = {
        b"large value": (good, b"large value", os.urandom(4 * MIB)),
        b"large value of an id at home elsewhere": (
            elsewhere,
            b"large value of an id at home elsewhere",
            os.urandom(4 * MIB),
        ),
        b"one mebibyte and a half": (good, b"one mebibyte and a half", os.urandom(MIB * 3 // 2)),
        None: (good, os.urandom(3 * MIB), None),
    }
    for headers, sent_key, sent_value in large.values():
        installation.requests.send(headers, sent_key, sent_value, partition=1)
        installation.requests.send(good, b"neighbour", b"", partition=1)
    installation.requests.flush()

    assert len(installation.wait_for(to, 4)) == 4
    dead_letters = installation.dead_letters(*large)
    for known_by, (_, key, value) in large.items():
        dead_letter = dead_letters[known_by]
        assert dead_letter.header("delay-reason") == "too-large"
        assert "max.message.bytes" in dead_letter.header("delay-error")
        if known_by == b"one mebibyte and a half":
            assert (dead_letter.key, dead_letter.value) == (key, value)
        else:
            assert dead_letter.value is None
            assert "left out" in dead_letter.header("delay-error")


def test_a_dead_letter_sent_again_as_it_is_works_once_its_cause_is_gone(
    installation: Installation, poisoned: Poisoned
) -> None:
    dead_letter = poisoned.dead_letters[_HOPED]
    to = create_topic(installation.bootstrap, f"{installation.app_id}-missing")
    installation.requests.send(dead_letter.headers, dead_letter.key, dead_letter.value)
    installation.requests.flush()

    accepted = ask_until(
        lambda: [one for one in installation.events() if (one["event"], one.get("to")) == ("accepted", to)],
        lambda events: {event["source"] for event in events} - {dead_letter.header("delay-source")},
        "its second acceptance",
    )
    installation.requests.command("deliver-now", accepted[-1]["id"])
    installation.requests.flush()
    (record,) = installation.wait_for(to, 1)
    assert (record.key, record.value) == (dead_letter.key, dead_letter.value)
    assert record.headers[0] == ("user", b"\xff")
