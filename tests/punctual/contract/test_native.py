"""The native contract: the request in a record of the requests topic."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from punctual.contract import native
from punctual.contract.plain_requests import decode_plain
from punctual.contract.request import Parked, Refusal, Request
from punctual.contract.request import decode as decode_request
from punctual.contract.request import encode as encode_request
from tables import Entry
from tables.entry import decode as decode_entry
from tables.entry import encode
from tests.harness.fuzz import share
from tests.punctual.contract.records import NOW, FakeRecord, Log


def decode(**said: str | bytes | None) -> Request:
    return native.decode(Log(partition=3, offset=42).record(**said))


def test_a_request_keeps_key_and_value_and_names_its_record() -> None:
    asked = decode(delay_to="orders", delay_at="1767225660000")

    assert asked == Request(
        "schedule",
        "delay-requests-3-42",
        "delay-requests-3-42",
        NOW,
        "delay-requests",
        NOW + 60_000,
        "orders",
        b"k",
        b"v",
        [],
    )


def test_null_keys_and_values_stay_null_and_empty_ones_empty() -> None:
    for key, value in ((None, None), (b"", b"")):
        asked = native.decode(replace(Log().record(delay_to="orders", delay_at="1"), key=key, value=value))

        assert (asked.key, asked.value) == (key, value)


def test_users_headers_keep_their_order_duplicates_and_null_values() -> None:
    users = [("b", b"1"), ("a", b"\xff\x00"), ("b", None), ("Delay-To", b"x"), ("delay", b""), ("b", b"1")]
    record = FakeRecord([users[0], ("delay-to", b"orders"), *users[1:4], ("delay-at", b"1"), *users[4:]])

    assert native.decode(record).headers == users


def test_delay_after_counts_from_the_records_timestamp() -> None:
    assert decode(delay_to="orders", delay_after="PT15M").due_ms == NOW + 900_000
    assert decode(delay_to="orders", delay_after="1").due_ms == NOW + 1


def test_a_promoted_message_has_the_source_of_the_parked_one() -> None:
    said = {"delay_parked": f"{NOW},{NOW + 1}", "delay_source": "delay-requests-2-9"}
    asked = decode(delay_to="orders", delay_at="1", delay_id="a", **said)

    assert asked.parked == Parked(NOW, NOW + 1, "delay-requests-2-9")
    assert (asked.source, asked.stamp_ms) == ("delay-requests-3-42", NOW)


def test_a_source_alone_is_what_deliveries_carry() -> None:
    assert decode(delay_to="orders", delay_at="1", delay_source="nonsense").parked is None


def test_every_header_of_a_request_is_read() -> None:
    asked = decode(
        delay_to="orders",
        delay_at="2026-01-01T00:01:00Z",
        delay_id="order-17",
        delay_to_partition="2",
        delay_to_cluster="emea",
        delay_max_late="PT5S",
        delay_if_late="drop",
        delay_dedupe="60000",
        delay_on_failure="https://example.com/back",
        delay_op="schedule",
    )

    assert (asked.id, asked.to, asked.due_ms, asked.partition) == ("order-17", "orders", NOW + 60_000, 2)
    assert (asked.cluster, asked.max_late_ms, asked.if_late) == ("emea", 5_000, "drop")
    assert (asked.dedupe_ms, asked.on_failure) == (60_000, "https://example.com/back")


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ({"delay_to_cluster": "emea"}, "cluster", "emea"),
        ({"delay_max_late": "PT5S"}, "max_late_ms", 5_000),
        ({"delay_dedupe": "60000"}, "dedupe_ms", 60_000),
        ({"delay_on_failure": "https://example.com"}, "on_failure", "https://example.com"),
        ({"delay_to_partition": "2"}, "partition", 2),
        ({"delay_if_due": "7"}, "if_due_ms", 7),
    ],
)
def test_each_optional_header_counts_by_itself_also_without_an_id(
    said: dict[str, str], field: str, value: object
) -> None:
    for id_ in ({}, {"delay_id": "order-17"}):
        asked = decode(delay_to="orders", delay_after="1", **said, **id_)

        assert getattr(asked, field) == value


@pytest.mark.parametrize("policy", ["deliver", "drop", "dead-letter"])
def test_the_policies_for_lateness_are_three(policy: str) -> None:
    assert decode(delay_to="orders", delay_at="1", delay_max_late="1", delay_if_late=policy).if_late == policy


@pytest.mark.parametrize("name", ["delay_due", "delay_source", "delay_reason", "delay_error"])
@pytest.mark.parametrize("value", ["anything", b"\xff", None])
def test_what_deliveries_and_dead_letters_carry_is_ignored(name: str, value: str | bytes | None) -> None:
    asked = decode(**{name: value}, delay_to="orders", delay_at="1")

    assert asked.headers == []
    assert asked.due_ms == 1


def test_a_command_needs_only_an_id_and_its_value_is_ignored() -> None:
    asked = decode(delay_op="cancel", delay_id="order-17", x_trace="1")

    assert (asked.op, asked.id, asked.source) == ("cancel", "order-17", "delay-requests-3-42")
    assert (asked.key, asked.value, asked.headers, asked.to) == (None, None, [], "")


def test_reschedule_takes_a_new_time_and_deliver_now_its_own() -> None:
    assert decode(delay_op="reschedule", delay_id="a", delay_at="5").due_ms == 5
    assert decode(delay_op="reschedule", delay_id="a", delay_after="5").due_ms == NOW + 5
    assert decode(delay_op="deliver-now", delay_id="a").due_ms == NOW


@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now"])
def test_a_command_may_say_which_due_time_it_expects(op: str) -> None:
    assert decode(delay_op=op, delay_id="a", delay_at="5", delay_if_due="0017").if_due_ms == 17
    assert decode(delay_op=op, delay_id="a", delay_at="5").if_due_ms is None


@pytest.mark.parametrize("id_", ["a", "x" * 256, "ü" * 128, "a b\x00-\n", "délai-3-4"])
def test_an_id_is_1_to_256_bytes_of_utf_8(id_: str) -> None:
    assert decode(delay_to="orders", delay_at="1", delay_id=id_).id == id_


HEADER_NAMES = st.sampled_from(
    [
        "delay-to",
        "delay-at",
        "delay-after",
        "delay-id",
        "delay-to-partition",
        "delay-to-cluster",
        "delay-max-late",
        "delay-if-late",
        "delay-dedupe",
        "delay-on-failure",
        "delay-op",
        "delay-if-due",
        "delay-error",
        "user",
    ]
)
HEADER_VALUES = (
    st.none()
    | st.binary(max_size=20)
    | st.sampled_from(
        [b"schedule", b"cancel", b"drop", b"1", b"PT1S", b"2030-01-31T08:00:00Z", b"P" + b"9" * 30 + b"D"]
    )
)


@given(st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=8), st.none() | st.binary(max_size=5))
def test_whatever_the_headers_say_the_record_is_refused_or_can_be_held(
    headers: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    try:
        asked = native.decode(FakeRecord([("delay-to", b"orders"), ("delay-at", b"1"), *headers], value=value))
    except Refusal:
        return
    held = Entry(asked.id, asked.to, asked.key, asked.value, asked.headers, asked.source, max_late_ms=asked.max_late_ms)
    assert decode_entry(encode(held)) == held
    assert decode_request(encode_request(asked)) == asked


_PLAIN = [("delay-to", b"orders"), ("delay-at", b"1767225660000"), ("delay-id", b"order-17")]
_ODD_NAMES = [
    "delay-to",
    "delay-at",
    "delay-id",
    "delay-after",
    "delay-op",
    "delay-source",
    "delay-x",
    "Delay-To",
    "\u00e9",
]
_ODD_TIMES = [b"1767225660000", b"17672256600", b"17672256600001234", b" 1767225660000"]
_ODD_VALUES = [None, b"", b"orders", *_ODD_TIMES, b"\xff", b"x" * 257]


@example([*_PLAIN[:2], ("delay-id", None)])
@example([("delay-to", None), *_PLAIN])
@example([*_PLAIN, ("delay-at", None)])
@settings(max_examples=share(500))
@given(
    st.lists(st.sampled_from(_PLAIN) | st.tuples(st.sampled_from(_ODD_NAMES), st.sampled_from(_ODD_VALUES)), max_size=6)
)
def test_reading_in_one_pass_equals_general_reading(headers: list[tuple[str, bytes | None]]) -> None:
    record = FakeRecord(headers)

    found = decode_plain(record)

    if found is not None:
        assert found == native._decode(record)


def test_most_requests_are_read_in_one_pass() -> None:
    assert decode_plain(FakeRecord([*_PLAIN, ("mine", None)])) is not None
    assert decode_plain(FakeRecord(_PLAIN[:2])) is not None


@pytest.mark.parametrize("policy", ["drop", "dead-letter"])
def test_a_maximum_lateness_of_zero_is_refused_where_it_would_drop_every_message(policy: str) -> None:
    with pytest.raises(Refusal, match=f"delay-max-late 0 with delay-if-late {policy} delivers nothing"):
        decode(delay_to="orders", delay_at="1", delay_max_late="PT0S", delay_if_late=policy)

    assert decode(delay_to="orders", delay_at="1", delay_max_late="0").max_late_ms == 0
    assert decode(delay_to="orders", delay_at="1", delay_max_late="0", delay_if_late="deliver").max_late_ms == 0
