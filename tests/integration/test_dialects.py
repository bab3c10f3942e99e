"""All dialects are inputs of one installation: what they ask for comes out as their own systems would send it.

One record in ten is malformed: it is on the dead letters topic with its code, and nothing else is lost for it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from punctual.contract.request import Headers
from tests.harness.kafka import Record, create_topic, now_ms, read
from tests.integration.conftest import Run
from tests.integration.installation import ON_TIME_MS, PARTITIONS, Installation, late_ms, users
from tests.punctual.contract.refused import REFUSED

#: So many good records come before each that is malformed.
GOOD = 9
AHEAD_MS = 8_000
COUNTDOWN_MS = 1_250


class Asked(NamedTuple):
    headers: Headers
    key: bytes | None
    value: bytes | None


class Delivery(NamedTuple):
    due_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Dialect(NamedTuple):
    """How one is asked, by number, destination and due time (a whole second), and what comes of the record then."""

    setting: str
    ask: Callable[[int, str, int], Asked]
    delivery: Callable[[Record, int], Delivery]
    #: What cancels the message of a number.
    cancel: Callable[[int], Asked]


def value(number: int) -> bytes:
    return b"value \xff %d" % number


def key(number: int) -> bytes:
    return b"key-%d" % number


def named(prefix: str, number: int) -> bytes:
    return f"{prefix}-{number}".encode()


def native_cancel(number: int) -> Asked:
    return Asked([("delay-op", b"cancel"), ("delay-id", named("far", number))], None, None)


def countdown(number: int, to: str, _: int) -> Asked:
    body = {"topic": to, "message": {"n": number}, "countdown": COUNTDOWN_MS / 1000}
    return Asked([("CALLER_SERVICE", b"S")], key(number), json.dumps(body).encode())


def counted_down(asked: Record, _: int) -> Delivery:
    message = json.loads(asked.value or b"")["message"]["n"]
    return Delivery(asked.timestamp_ms + COUNTDOWN_MS, asked.key, b'{"n":%d}' % message, asked.headers)


def airtel(number: int, to: str, due_ms: int) -> Asked:
    content = {"topic": to, "key": f"key-{number}", "value": f"text {number}", "headers": {"b": "é", "a": ""}}
    body = json.dumps({**content, "postTime": due_ms, "failurePostCallbackUrl": ""})
    return Asked([("own", b"1")], None, body.encode())


def posted(asked: Record, due_ms: int) -> Delivery:
    body = json.loads(asked.value or b"")
    return Delivery(due_ms, body["key"].encode(), body["value"].encode(), [("b", "é".encode()), ("a", b"")])


def etf1(number: int, to: str, due_ms: int) -> Asked:
    headers: Headers = [
        ("scheduler-epoch", b"%d" % (due_ms // 1_000)),
        ("scheduler-target-topic", to.encode()),
        ("scheduler-target-key", key(number)),
        ("customer-header", b"dummy"),
    ]
    return Asked(headers, named("etf1", number), value(number))


def scheduled(asked: Record, due_ms: int) -> Delivery:
    more: Headers = [
        ("scheduler-timestamp", b"%d" % (asked.timestamp_ms // 1_000)),
        ("scheduler-key", asked.key),
        ("scheduler-topic", asked.topic.encode()),
    ]
    return Delivery(due_ms, asked.header("scheduler-target-key").encode(), asked.value, [*asked.headers, *more])


def karafka(number: int, to: str, due_ms: int) -> Asked:
    headers: Headers = [
        ("schedule_schema_version", b"1.0.0"),
        ("schedule_source_type", b"schedule"),
        ("schedule_target_epoch", b"%d" % (due_ms // 1_000)),
        ("schedule_target_topic", to.encode()),
        ("schedule_target_key", key(number)),
        ("schedule_target_partition", b"1"),
    ]
    return Asked(headers, named("karafka", number), value(number))


def dispatched(asked: Record, due_ms: int) -> Delivery:
    more: Headers = [
        ("schedule_source_topic", asked.topic.encode()),
        ("schedule_source_partition", b"%d" % asked.partition),
        ("schedule_source_offset", b"%d" % asked.offset),
        ("schedule_source_key", asked.key),
    ]
    return Delivery(due_ms, asked.header("schedule_target_key").encode(), asked.value, [*asked.headers, *more])


def nats(number: int, to: str, due_ms: int) -> Asked:
    at = datetime.fromtimestamp(due_ms // 1_000, UTC).strftime("@at %Y-%m-%dT%H:%M:%SZ")
    headers: Headers = [
        ("Nats-Schedule", at.encode()),
        ("Nats-Schedule-Target", to.encode()),
        ("Nats-Schedule-TTL", b"5m"),
        ("Nats-Msg-Id", b"1"),
        ("Nats-Expected-Stream", b"ORDERS"),
        ("trace", b"1"),
    ]
    return Asked(headers, named("nats", number), value(number))


def triggered(asked: Record, due_ms: int) -> Delivery:
    more: Headers = [("Nats-Scheduler", asked.key), ("Nats-Schedule-Next", b"purge"), ("Nats-TTL", b"5m")]
    return Delivery(due_ms, asked.key, asked.value, [("trace", b"1"), *more])


def header(name: str, said: Callable[[int], bytes]) -> Callable[[int, str, int], Asked]:
    def ask(number: int, _: str, due_ms: int) -> Asked:
        return Asked([("user", b"\xff"), (name, said(due_ms)), ("user", None)], key(number), value(number))

    return ask


def unchanged(asked: Record, due_ms: int) -> Delivery:
    return Delivery(due_ms, asked.key, asked.value, asked.headers)


def digits(due_ms: int) -> bytes:
    return b"%d" % due_ms


def binary(due_ms: int) -> bytes:
    return due_ms.to_bytes(6)


BACKOFF = "retry_topic-backoff-timestamp"
STOPPED: Headers = [("schedule_schema_version", b"1.0.0"), ("schedule_source_type", b"cancel")]
DIALECTS = {
    "countdown": Dialect("countdown", countdown, counted_down, native_cancel),
    "airtel": Dialect("airtel", airtel, posted, native_cancel),
    "etf1": Dialect("etf1", etf1, scheduled, lambda number: Asked([], named("etf1", number), None)),
    "karafka": Dialect("karafka", karafka, dispatched, lambda number: Asked(STOPPED, named("karafka", number), None)),
    "nats": Dialect(
        "nats",
        nats,
        triggered,
        lambda number: Asked(
            [("Nats-Scheduler", named("nats", number)), ("Nats-Schedule-Next", b"purge")], b"elsewhere", b"stopped"
        ),
    ),
    "spring": Dialect("spring:*", header(BACKOFF, binary), unchanged, native_cancel),
    "deliver-after": Dialect("deliver-after:*", header("deliverAfter", digits), unchanged, native_cancel),
    "publish-after": Dialect("publish-after:*", header("publish-after-ts", digits), unchanged, native_cancel),
}
CASES = {name: {case: each for case, each in cases.items() if not each.setting} for name, cases in REFUSED.items()}
every_dialect = pytest.mark.parametrize("name", DIALECTS)


def input_of(app_id: str, name: str) -> str:
    return f"{app_id}-in-{name}"


def destination_of(app_id: str, name: str) -> str:
    return f"{app_id}-to-{name}"


@pytest.fixture(scope="module")
def installation(bootstrap: str, run: Run) -> Iterator[Installation]:
    def before(app_id: str) -> None:
        for name in DIALECTS:
            create_topic(bootstrap, destination_of(app_id, name), 2)

    def env(app_id: str) -> dict[str, str]:
        inputs = (
            f"{input_of(app_id, name)}={dialect.setting.replace('*', destination_of(app_id, name))}"
            for name, dialect in DIALECTS.items()
        )
        return {"DELAY_INPUTS": ",".join(inputs), "DELAY_DESTINATIONS": f"{app_id}-to-*"}

    with run("dialects", before=before, env=env) as made:
        yield made


class Sent(NamedTuple):
    due_ms: int
    #: Of each dialect the requests by their source, and the case that each malformed one is.
    requests: dict[str, dict[str, Record]]
    malformed: dict[str, dict[str, str]]
    dead_letters: dict[str, Record]


@pytest.fixture(scope="module")
def sent(installation: Installation) -> Sent:
    """Each malformed record comes after nine good ones, in bursts of all inputs side by side."""
    due_ms = (now_ms() + AHEAD_MS) // 1_000 * 1_000
    malformed: dict[str, dict[str, str]] = {}
    for name, dialect in DIALECTS.items():
        topic, to = input_of(installation.app_id, name), destination_of(installation.app_id, name)
        ends, malformed[name] = Counter[int](), {}
        for number, (case, wrong) in enumerate(CASES[name].items()):
            partition = number % PARTITIONS
            good = [dialect.ask(number * GOOD + each, to, due_ms) for each in range(GOOD)]
            for asked in (*good, Asked(list(wrong.record.headers), wrong.record.key, wrong.record.value)):
                installation.requests.send(asked.headers, asked.key, asked.value, topic=topic, partition=partition)
                ends[partition] += 1
            malformed[name][f"{topic}-{partition}-{ends[partition] - 1}"] = case
    installation.requests.flush()
    assert now_ms() < due_ms
    count = sum(map(len, malformed.values()))
    letters = installation.wait_for(f"{installation.app_id}-dead-letters", count, 60)
    requests = {
        name: {record.source: record for record in read(installation.bootstrap, input_of(installation.app_id, name))}
        for name in DIALECTS
    }
    return Sent(due_ms, requests, malformed, {letter.header("delay-source"): letter for letter in letters})


@every_dialect
def test_deliveries_are_on_time_and_as_their_own_system_makes_them(
    name: str, sent: Sent, installation: Installation
) -> None:
    good = sent.requests[name].keys() - sent.malformed[name].keys()
    deliveries = installation.wait_for(destination_of(installation.app_id, name), len(good), 60)

    assert sorted(record.header("delay-source") for record in deliveries) == sorted(good), "each of them once"
    for record in deliveries:
        expected = DIALECTS[name].delivery(sent.requests[name][record.header("delay-source")], sent.due_ms)
        due_ms = int(record.header("delay-due"))
        assert Delivery(due_ms, record.key, record.value, users(record.headers)) == expected
        assert [header for header, _ in record.headers[-3:]] == ["delay-id", "delay-due", "delay-source"]
        assert 0 <= late_ms(record) <= ON_TIME_MS
        assert name != "karafka" or record.partition == 1


@every_dialect
def test_what_is_malformed_is_a_dead_letter_as_it_came_with_its_code(name: str, sent: Sent) -> None:
    for source, case in sent.malformed[name].items():
        letter, wrong = sent.dead_letters[source], CASES[name][case]
        assert (letter.header("delay-reason"), case) == (wrong.reason, case)
        assert wrong.says in letter.header("delay-error")
        assert (letter.key, letter.value) == (wrong.record.key, wrong.record.value)
        assert letter.headers[:-3] == list(wrong.record.headers)


def test_one_record_in_ten_was_malformed_and_nothing_else_is_a_dead_letter(
    sent: Sent, installation: Installation
) -> None:
    total, wrong = sum(map(len, sent.requests.values())), sum(map(len, sent.malformed.values()))

    assert total == (GOOD + 1) * wrong
    assert len(installation.dead_letters(0)) <= len(sent.dead_letters) == wrong


@every_dialect
def test_a_message_is_cancelled_in_its_own_way_or_natively(name: str, installation: Installation) -> None:
    far_ms, number = now_ms() // 1_000 * 1_000 + 3_600_000, 1_000_000 + list(DIALECTS).index(name)
    dialect, topic = DIALECTS[name], input_of(installation.app_id, name)
    asked = dialect.ask(number, destination_of(installation.app_id, name), far_ms)
    keyed = dialect.cancel is not native_cancel
    if not keyed:
        asked.headers.append(("delay-id", named("far", number)))
    if name == "countdown":
        asked = asked._replace(value=(asked.value or b"").replace(b"1.25", b"3600"))
    cancel = dialect.cancel(number)
    installation.requests.send(asked.headers, asked.key, asked.value, topic=topic, partition=0)
    installation.requests.send(cancel.headers, cancel.key, cancel.value, topic=topic, partition=0)
    installation.requests.flush()

    id_ = named(name if keyed else "far", number).decode()
    assert installation.await_event("cancelled", id_)[id_]["source"].startswith(topic)
