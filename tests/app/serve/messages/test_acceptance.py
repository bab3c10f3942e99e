"""A gateway turns messages into complete requests that a worker reads with the same meaning, or refuses them."""

import json
import re
from contextlib import nullcontext
from typing import Any

import pytest

from app.serve.access.caller import ANYBODY, Caller
from app.serve.messages import record_form, short_form
from app.serve.messages.acceptance import Acceptance, Accepted
from app.serve.messages.receipts import Origin
from app.serve.web.problem import Problem
from app.settings.settings import Settings
from punctual.contract.home import home_partition, key_partition
from punctual.contract.record import PlainRecord
from punctual.contract.request import Request
from tests.app.gateway.conftest import ENV

NOW_MS = 1_795_600_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TEAM_A = Caller("a", "operator", namespaces=("a",), destinations=("orders", "reminders"))


ORIGIN = Origin(NOW_MS, lambda number, _: f"new-{number}")


def settings(**env: str) -> Settings:
    return Settings.from_env(ENV | env)


def accepted(draft: Any, caller: Caller = ANYBODY, **env: str) -> Accepted:
    return Acceptance(settings(**env)).read(draft, caller, ORIGIN, 0)


def short(caller: Any = ANYBODY, env: Any = None, **message: Any) -> Accepted:
    raw = json.dumps({"to": "orders", **message}).encode()
    return accepted(short_form.draft(raw, "delay-requests"), caller, **(env or {}))


def record(topic: str, value: object, caller: Any = ANYBODY, key: Any = None, **headers: str) -> Accepted:
    """Read a record for a topic, its headers named with underscores."""
    pairs = [(name.replace("_", "-"), said.encode()) for name, said in headers.items()]
    raw = json.dumps(
        {"value": {"type": "JSON", "data": value}, "key": key and {"type": "STRING", "data": key}}
    ).encode()
    draft = record_form.draft(raw, topic)
    draft.headers = list(pairs)
    return accepted(draft, caller)


def header(one: Accepted, name: str) -> str | None:
    said = [(value or b"").decode() for known, value in one.submission.headers if known == name]
    assert len(said) < 2, one.submission.headers
    return said[0] if said else None


def read_later(one: Accepted, wait_ms: int = HOUR_MS) -> Request:
    """Return the request that a worker reads when Kafka gets the record later."""
    sent = one.submission
    late = PlainRecord(sent.topic, sent.partition or 0, 7, NOW_MS + wait_ms, sent.key, sent.value, sent.headers)
    return settings().topics.dialect(sent.topic).decode(late)


@pytest.mark.parametrize(
    ("said", "due_ms"),
    [
        ({"after": "PT1M"}, NOW_MS + 60_000),
        ({"after": 1_500}, NOW_MS + 1_500),
        ({"at": NOW_MS + 5}, NOW_MS + 5),
        ({"at": "2027-01-01T00:00:00Z"}, 1_798_761_600_000),
        ({"every": "PT1M"}, NOW_MS + 60_000),
        ({"every": "PT1M", "at": NOW_MS + 7}, NOW_MS + 7),
        ({"cron": "0 0 1 1 *"}, 1_798_761_600_000),
        ({"cron": "0 0 1 1 *", "zone": "Europe/Berlin"}, 1_798_758_000_000),
    ],
)
def test_a_due_time_counts_from_the_arrival_of_the_message_however_late_kafka_gets_it(
    said: dict[str, Any], due_ms: int
) -> None:
    one = short(**said)
    assert (one.asked.due_ms, read_later(one).due_ms, header(one, "delay-after")) == (due_ms, due_ms, None)


@pytest.mark.parametrize("rule", [{"every": "PT1H"}, {"cron": "0 9 * * *", "zone": "Europe/Berlin"}])
def test_a_series_without_a_due_time_is_read_as_one_without(rule: dict[str, Any]) -> None:
    assert read_later(short(**rule)).says_when is False
    assert read_later(short(**rule, at=NOW_MS + 7)).says_when is True
    assert read_later(short(**rule, after="P3D")).says_when is True


def test_jitter_is_added_once() -> None:
    one = short(after="PT1M", jitter="PT10M", id="x")
    assert read_later(one).due_ms == one.asked.due_ms
    assert header(one, "delay-at") == str(NOW_MS + 60_000)


@pytest.mark.parametrize(
    ("topic", "value", "headers", "due_ms"),
    [
        ("countdowns", {"topic": "orders", "message": 1, "countdown": 60}, {}, NOW_MS + 60_000),
        ("countdowns", {"topic": "orders", "message": 1}, {"delay_after": "PT1M"}, NOW_MS + 60_000),
        ("countdowns", {"topic": "orders", "message": 1}, {"delay_at": str(NOW_MS + 1)}, NOW_MS + 1),
    ],
)
def test_a_due_time_of_another_dialect_counts_from_the_arrival_of_the_message(
    topic: str, value: object, headers: dict[str, str], due_ms: int
) -> None:
    one = record(topic, value, **headers)
    later = read_later(one)
    assert (one.asked.due_ms, later.due_ms, later.value) == (due_ms, due_ms, b"1")


def test_a_record_of_a_dialect_with_ids_keeps_its_own() -> None:
    headers = {"scheduler_epoch": "1795610000", "scheduler_target_topic": "orders", "scheduler_target_key": "k"}
    one = record("scheduler", "v", key="their-id", **headers)
    assert (one.submission.id, header(one, "delay-id"), read_later(one).id) == ("their-id", None, "their-id")


def test_messages_get_an_id_a_time_of_arrival_and_a_deduplication_window() -> None:
    one = short(after=1)
    assert one.submission.id == header(one, "delay-id") == "new-0"
    assert header(one, "delay-asked-at") == str(NOW_MS)
    assert header(one, "delay-dedupe") == str(DAY_MS)
    assert read_later(one).id == one.submission.id


@pytest.mark.parametrize(
    ("said", "env", "dedupe_ms"),
    [
        ({}, {"DELAY_DEDUPE_WINDOW": "PT1H"}, DAY_MS),
        ({}, {"DELAY_DEDUPE_WINDOW": "P2D"}, 2 * DAY_MS),
        ({}, {"DELAY_POLICIES": "delay-requests=dedupe PT3H"}, 3 * HOUR_MS),
        ({"dedupe": 5}, {}, 5),
    ],
)
def test_a_deduplication_window_in_the_message_is_kept(
    said: dict[str, Any], env: dict[str, str], dedupe_ms: int
) -> None:
    assert short(env=env, after=1, **said).asked.dedupe_ms == dedupe_ms


def test_series_and_commands_have_no_window() -> None:
    assert header(short(every="PT1M"), "delay-dedupe") is None
    command = record("delay-requests", None, delay_op="cancel", delay_id="x")
    assert (header(command, "delay-dedupe"), command.asked.op) == (None, "cancel")


@pytest.mark.parametrize(("said", "kept"), [(NOW_MS - 5, NOW_MS - 5), (NOW_MS + 5, NOW_MS), ("9" * 15, NOW_MS)])
def test_a_command_may_be_older_than_its_request_and_never_newer(said: object, kept: int) -> None:
    one = short(after=1, **{"asked-at": said})
    assert header(one, "delay-asked-at") == str(kept)
    assert one.asked.due_ms == NOW_MS + 1


def test_the_home_partition_is_that_of_the_id_and_of_a_new_id_that_of_the_key() -> None:
    one = short(after=1, id="mine", key="k")
    assert one.submission.partition == home_partition("mine", settings().topics.inputs, 4)
    for key in ("a", "b", "c", "d", "e"):
        for caller in (ANYBODY, TEAM_A):
            assert short(caller, after=1, key=key).submission.partition == key_partition(key.encode(), 4)
        of_input = record("team-a", 1, key=key, delay_to="orders", delay_after="1")
        assert of_input.submission.partition == key_partition(key.encode(), 4)


def test_a_requested_partition_must_be_the_home_of_the_id() -> None:
    for number in range(4):
        raw = json.dumps({"partition_id": number}).encode()
        draft = record_form.draft(raw, "delay-requests")
        draft.headers = [("delay-to", b"orders"), ("delay-after", b"1")]
        assert accepted(draft).submission.partition == number


def test_ids_get_their_namespace_once() -> None:
    for id_ in ("mine", "a/mine"):
        one = short(TEAM_A, after=1, id=id_)
        assert (one.submission.id, header(one, "delay-id"), read_later(one).id) == ("a/mine",) * 3
    assert short(TEAM_A, after=1, id="b/mine").submission.id == "a/b/mine"
    assert short(TEAM_A, after=1).submission.id.startswith("a/")


def test_an_input_of_a_namespace_adds_it_to_ids_too() -> None:
    one = record("team-a", 1, delay_to="orders", delay_after="1", delay_id="mine")
    assert one.submission.id == "a/mine"


@pytest.mark.parametrize("topic", ["team-a", "scheduler"])
def test_an_input_that_is_not_of_the_token_s_namespace_is_refused(topic: str) -> None:
    headers = {"delay_to": "orders", "delay_after": "1"}
    if topic == "scheduler":
        headers = {"scheduler_epoch": "1795610000", "scheduler_target_topic": "orders", "scheduler_target_key": "k"}
    with pytest.raises(Problem) as refused:
        record(topic, 1, Caller("b", "operator", namespaces=("b",)), key="k", **headers)
    assert refused.value.kind.name == "forbidden"


def test_a_token_delivers_only_to_its_destinations() -> None:
    assert short(TEAM_A, after=1).asked.to == "orders"
    with pytest.raises(Problem, match="a has no permission to deliver to 'orders-2'") as refused:
        short(TEAM_A, to="orders-2", after=1)
    assert (refused.value.kind.name, refused.value.errors[0].pointer) == ("not-allowed", "#/to")


@pytest.mark.parametrize(
    ("destinations", "allowed"),
    [
        (("orders",), False),
        (("orders", "https://a.example/*"), True),
        (("orders", "https://b.example/*"), False),
        (("*",), True),
    ],
)
def test_failure_callbacks_go_only_to_destinations_of_the_caller(
    destinations: tuple[str, ...], *, allowed: bool
) -> None:
    caller, url = Caller("a", "operator", destinations=destinations), "https://a.example/back"
    draft = record_form.draft(b'{"value": {"type": "JSON", "data": 1}}', "delay-requests")
    draft.headers = [("delay-to", b"orders"), ("delay-after", b"1"), ("delay-on-failure", url.encode())]
    with nullcontext() if allowed else pytest.raises(Problem, match=r"deliver to 'https://a\.example'"):
        accepted(draft, caller, DELAY_CALLBACKS="https://*")


@pytest.mark.parametrize(
    ("said", "kind", "pointers"),
    [
        ({"after": 1, "to": None}, "missing-destination", ["#/to"]),
        ({}, "missing-due", ["#/at", "#/after"]),
        ({"at": NOW_MS, "after": 1}, "ambiguous-due", ["#/at", "#/after"]),
        ({"at": "tomorrow"}, "malformed", ["#/at"]),
        ({"at": 1_795_600_000}, "malformed", ["#/at"]),
        ({"after": "P1Y"}, "malformed", ["#/after"]),
        ({"after": "P9999D"}, "too-far", ["#/after"]),
        ({"after": 1, "id": ""}, "bad-id", ["#/id"]),
        ({"after": 1, "id": "x" * 257}, "bad-id", ["#/id"]),
        ({"after": 1, "to": "delay-events"}, "not-allowed", ["#/to"]),
        ({"after": 1, "to": "delay-requests"}, "not-allowed", ["#/to"]),
        ({"after": 1, "to": "__consumer_offsets"}, "not-allowed", ["#/to"]),
        ({"after": 1, "to": "strange"}, "not-allowed", ["#/to"]),
        ({"after": 1, "to": "no topic"}, "unknown-topic", ["#/to"]),
        ({"after": 1, "to": "https://example.org/x"}, "not-allowed", ["#/to"]),
        ({"after": 1, "to": "https://example.com/x", "to-partition": 1}, "malformed", ["#/to", "#/to-partition"]),
        ({"after": 1, "to-cluster": "elsewhere"}, "unknown-cluster", ["#/to-cluster"]),
        ({"after": 1, "max-late": "soon"}, "malformed", ["#/max-late"]),
        ({"after": 1, "if-late": "drop"}, "malformed", ["#/if-late"]),
        ({"after": 1, "if-late": "maybe", "max-late": 1}, "malformed", ["#/if-late"]),
        ({"after": 1, "to-partition": "x"}, "malformed", ["#/to-partition"]),
        ({"after": 1, "jitter": "x"}, "malformed", ["#/jitter"]),
        ({"every": "PT0.1S"}, "malformed", ["#/every"]),
        ({"cron": "x"}, "malformed", ["#/cron"]),
        ({"cron": "@daily", "zone": "Mars/Olympus"}, "malformed", ["#/zone"]),
        ({"every": "PT1M", "cron": "@daily"}, "ambiguous-due", ["#/every", "#/cron"]),
        ({"after": 1, "count": 3}, "malformed", ["#/count"]),
        ({"after": 1, "retry": "exponential 1s 2 1h"}, "ambiguous-due", ["#/retry", "#/after"]),
        ({"after": 1, "max-attempts": 3}, "malformed", ["#/max-attempts"]),
        ({"retry": "soon"}, "malformed", ["#/retry"]),
        (
            {"retry": "exponential 1s 2 1h", "max-attempts": 1, "attempt": 1},
            "attempts-exhausted",
            ["#/max-attempts", "#/attempt"],
        ),
        ({"after": 1, "on-failure": "https://example.com/"}, "not-allowed", ["#/on-failure"]),
        ({"after": 1, "headers": {"delay-to": "x"}}, "malformed", ["#/headers/delay-to"]),
        ({"after": 1, "headers": [["h", "1"], ["delay-x", "x"]]}, "malformed", ["#/headers/1"]),
        ({"after": 1, "unknown": 1}, "malformed", ["#/unknown"]),
        ({"after": 1, "key": 5}, "malformed", ["#/key"]),
        ({"after": 1, "key": {"base64": "?"}}, "malformed", ["#/key/base64"]),
        ({"after": 1, "value": {"base64": "!!"}}, "malformed", ["#/value/base64"]),
        ({"after": 1, "value": {"base64": "AAH"}}, "malformed", ["#/value/base64"]),
        ({"after": 1, "value": {"base64": 5}}, "malformed", ["#/value/base64"]),
        ({"after": 1, "value": {"base64": None}}, "malformed", ["#/value/base64"]),
        ({"after": 1, "headers": {"h": 5}}, "malformed", ["#/headers"]),
        ({"after": -1}, "malformed", ["#/after"]),
        ({"at": 1.5}, "malformed", ["#/at"]),
        ({"to": 5, "after": 1}, "malformed", ["#/to"]),
    ],
)
def test_requests_that_a_worker_would_refuse_are_refused_with_the_position_of_the_error(
    said: dict[str, Any], kind: str, pointers: list[str]
) -> None:
    with pytest.raises(Problem) as refused:
        short(**said)
    problem = refused.value
    assert (problem.kind.name, [fault.pointer for fault in problem.errors]) == (kind, pointers), problem.detail


def test_errors_of_the_record_form_name_the_header() -> None:
    raw = b'{"headers": [{"name": "x"}, {"name": "delay-to", "value": "eA=="}, {"name": "delay-at", "value": "eA=="}]}'
    with pytest.raises(Problem) as refused:
        accepted(record_form.draft(raw, "delay-requests"))
    assert [fault.pointer for fault in refused.value.errors] == ["#/headers/2/value"]


def test_headers_of_the_cold_tier_are_refused() -> None:
    with pytest.raises(Problem, match="delay-parked"):
        record(
            "delay-requests", 1, delay_to="orders", delay_at="1", delay_id="x", delay_parked="1,1", delay_source="t-1-1"
        )


def test_a_retry_keeps_the_id_that_follows_from_its_source() -> None:
    headers = {"delay_to": "orders", "delay_retry": "exponential 1s 2 1h", "delay_source": "orders-1-5"}
    one = record("delay-requests", 1, **headers)
    assert one.submission.id == "orders-1-5~2~orders"
    assert header(one, "delay-id") is None


@pytest.mark.parametrize("source", ["b/order-17", "orders-1-5"])
@pytest.mark.parametrize("more", [{}, {"delay_id": "x", "delay_due": "1"}, {"delay_id": "b/x", "delay_due": "1"}])
def test_a_retry_of_a_team_stays_in_its_namespace(source: str, more: dict[str, str]) -> None:
    headers = {"delay_to": "orders", "delay_retry": "exponential 1s 2 1h", "delay_source": source, **more}
    one = record("delay-requests", 1, TEAM_A, **headers)
    assert one.submission.id == one.asked.id == read_later(one).id
    assert re.fullmatch(rf"a/{source}{'@1#[0-9a-f]{16}' if more else ''}~2~orders", one.submission.id)
    assert read_later(one, 0).due_ms == one.asked.due_ms
    assert record("delay-requests", 1, TEAM_A, **headers).submission.id == one.submission.id


def test_a_retry_of_a_record_without_a_source_is_a_message_of_its_own() -> None:
    headers = {"delay_to": "orders", "delay_retry": "exponential 1s 2 1h", "delay_id": "was", "delay_due": "1"}
    one = record("delay-requests", 1, **headers)
    assert one.submission.id == read_later(one).id == "new-0"


def test_a_delivery_that_is_handed_on_to_another_dialect_is_a_message_of_its_own() -> None:
    value = {"topic": "orders", "message": 1, "countdown": 1}
    one = record("countdowns", value, delay_id="was", delay_due="1", delay_source="orders-1-5")
    assert read_later(one).id == one.submission.id != "was"
    assert record("countdowns", value, delay_due="1").submission.id == "new-0"


def test_a_repeated_field_is_refused() -> None:
    for raw in (b'{"to":"orders","at":1,"at":2}', b'{"to":"orders","at":1,"to":"reminders"}'):
        with pytest.raises(Problem, match="twice"):
            short_form.draft(raw, "delay-requests")
    with pytest.raises(Problem, match="twice"):
        record_form.draft(b'{"value":null,"value":{"type":"JSON","data":1}}', "delay-requests")


@pytest.mark.parametrize(
    ("value", "delivered"),
    [
        ("text", b"text"),
        ('"quoted"', b'"quoted"'),
        (None, None),
        ({"base64": "AAH/"}, b"\x00\x01\xff"),
        ({"base64": "AAH/", "x": 1}, b'{"base64":"AAH/","x":1}'),
        ([1, {"a": None}], b'[1,{"a":null}]'),
        (False, b"false"),
        ("", b""),
    ],
)
def test_a_value_is_delivered_in_its_own_encoding(value: object, delivered: bytes | None) -> None:
    assert short(after=1, value=value).submission.value == delivered


def test_numbers_keep_their_digits() -> None:
    raw = b'{"to":"orders","after":1,"value":{"a": 1.10, "b": 12345678901234567890123, "c": 1E400}}'
    assert short_form.draft(raw, "t").value == b'{"a":1.10,"b":12345678901234567890123,"c":1E400}'


@pytest.mark.parametrize(
    ("said", "delivered"),
    [
        ({"type": "BINARY", "data": "AAH/"}, b"\x00\x01\xff"),
        ({"type": "BINARY", "data": "AAE"}, b"\x00\x01"),
        ({"type": "STRING", "data": "text"}, b"text"),
        ({"type": "JSON", "data": "text"}, b'"text"'),
        ({"type": "JSON", "data": {"a": 1}}, b'{"a":1}'),
        ({"type": "JSON", "data": None}, None),
        ({"type": "JSON"}, None),
        (None, None),
    ],
)
def test_the_data_of_a_record_are_read_by_their_type(said: object, delivered: bytes | None) -> None:
    draft = record_form.draft(json.dumps({"key": said, "value": said}).encode(), "t")
    assert (draft.key, draft.value) == (delivered, delivered)


@pytest.mark.parametrize(
    ("said", "pattern"),
    [
        ({"type": "BINARY", "data": 1}, "data=1 is not a base64 string"),
        ({"type": "BINARY", "data": "?"}, "is not a valid base64 string"),
        ({"type": "STRING", "data": 1}, "data=1 is not a string"),
        ({"type": "AVRO", "data": 1}, "value.type: Invalid enum value 'AVRO'"),
        ({"data": 1}, "missing required field `type`"),
        ({"type": "JSON", "data": 1, "schema_id": 1}, "unknown field `schema_id`"),
    ],
)
def test_data_that_are_not_of_their_type_are_refused(said: object, pattern: str) -> None:
    with pytest.raises(Problem, match=re.escape(pattern)):
        record_form.draft(json.dumps({"value": said}).encode(), "t")
