"""A call becomes exactly the headers of the contract, or an error that says what to write."""

import re
from datetime import UTC, datetime, timedelta
from inspect import Parameter, signature
from typing import Any

import pytest

from punctual import (
    DelayError,
    DelayOptions,
    InvalidDestinationError,
    InvalidDueTimeError,
    InvalidHeaderError,
    InvalidIdError,
    InvalidOptionError,
    InvalidRequestError,
    exponential,
)
from punctual.client.requests import Operation, Request, command, schedule

DUE = datetime(2030, 1, 1, tzinfo=UTC)
SOON = timedelta(minutes=15)


class FaustTopic:
    def get_topic_name(self) -> str:
        return "orders"


def test_the_least_request_has_a_destination_and_a_due_time() -> None:
    assert schedule("orders", b"v", at=DUE) == Request(
        None, b"v", (("delay-to", b"orders"), ("delay-at", b"1893456000000")), None
    )


def test_every_option_is_one_header() -> None:
    request = schedule(
        "orders",
        {"n": 1},
        after=SOON,
        key="k",
        headers={"trace": "42"},
        id="r-1",
        to_partition=3,
        to_cluster="eu",
        max_late=timedelta(minutes=1),
        if_late="dead-letter",
        dedupe=timedelta(days=1),
        on_failure="https://shop.example/failed",
        no_later=timedelta(seconds=10),
        jitter=timedelta(milliseconds=500),
        asked_at=DUE,
    )

    assert request.key == b"k"
    assert request.value == b'{"n":1}'
    assert request.id == b"r-1"
    assert request.headers == (
        ("delay-to", b"orders"),
        ("delay-after", b"900000"),
        ("delay-id", b"r-1"),
        ("delay-to-partition", b"3"),
        ("delay-to-cluster", b"eu"),
        ("delay-max-late", b"60000"),
        ("delay-if-late", b"dead-letter"),
        ("delay-dedupe", b"86400000"),
        ("delay-on-failure", b"https://shop.example/failed"),
        ("delay-no-later", b"10000"),
        ("delay-jitter", b"500"),
        ("delay-asked-at", b"1893456000000"),
        ("trace", b"42"),
    )


def test_the_typed_options_are_the_arguments() -> None:
    keywords = {name for name, p in signature(schedule).parameters.items() if p.kind is Parameter.KEYWORD_ONLY}

    assert keywords == DelayOptions.__annotations__.keys()


def test_user_headers_keep_their_order_and_duplicates() -> None:
    pairs: list[tuple[str, bytes | str | None]] = [("b", b"\xff"), ("a", "é"), ("b", None), ("b", ""), ("Delay-X", b"")]

    assert schedule("orders", b"", after=SOON, headers=pairs).headers[2:] == (
        ("b", b"\xff"),
        ("a", "é".encode()),
        ("b", None),
        ("b", b""),
        ("Delay-X", b""),
    )


@pytest.mark.parametrize("name", ["delay-to", "delay-at", "delay-mine", "delay-"])
def test_a_user_header_cannot_pass_for_one_of_ours(name: str) -> None:
    with pytest.raises(InvalidHeaderError, match=f"{name} begins with delay-, which is reserved"):
        schedule("orders", b"", after=SOON, headers=[(name, b"x")])


@pytest.mark.parametrize("headers", [["trace"], [("a", b"", 1)], {"a": 1}, [(b"a", b"")], {"a": "\ud800"}])
def test_headers_that_are_none_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidHeaderError):
        schedule("orders", b"", after=SOON, headers=headers)


def test_a_due_time_must_be_given_once() -> None:
    with pytest.raises(InvalidDueTimeError, match="Both at and after"):
        schedule("orders", b"", at=DUE, after=SOON)
    with pytest.raises(InvalidDueTimeError, match="No due time: give at="):
        schedule("orders", b"")
    with pytest.raises(InvalidDueTimeError, match="No due time"):
        command("reschedule", "r-1")


@pytest.mark.parametrize("message_id", ["a", "x" * 256, "ü" * 128, "with spaces / and #"])
def test_ids_of_1_to_256_bytes_are_taken_as_they_are(message_id: str) -> None:
    assert schedule("orders", b"", after=SOON, id=message_id).id == message_id.encode()


@pytest.mark.parametrize("message_id", ["", "x" * 257, "ü" * 129, "\ud800", 42, b"r-1"])
def test_other_ids_are_refused(message_id: Any) -> None:
    with pytest.raises(InvalidIdError):
        schedule("orders", b"", after=SOON, id=message_id)
    with pytest.raises(InvalidIdError):
        command("cancel", message_id)


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "ä", "x" * 250, ".", "..", None, 3, b"orders"])
def test_what_kafka_cannot_call_a_topic_is_refused(topic: object) -> None:
    with pytest.raises(InvalidDestinationError, match="is neither a topic nor"):
        schedule(topic, b"", after=SOON)


def test_a_faust_topic_is_a_destination() -> None:
    assert schedule(FaustTopic(), b"", after=SOON).headers[0] == ("delay-to", b"orders")


@pytest.mark.parametrize("partition", [-1, "3", True, 1.0])
def test_an_invalid_partition_is_refused(partition: Any) -> None:
    with pytest.raises(InvalidDestinationError, match="is not a partition"):
        schedule("orders", b"", after=SOON, to_partition=partition)


def test_an_empty_cluster_name_is_refused() -> None:
    with pytest.raises(InvalidDestinationError, match="DELAY_CLUSTERS"):
        schedule("orders", b"", after=SOON, to_cluster="")


def test_a_lateness_policy_is_a_known_one_and_has_a_limit() -> None:
    unknown: Any = "ignore"
    with pytest.raises(InvalidOptionError, match="is not valid: give one of deliver, drop, dead-letter"):
        schedule("orders", b"", after=SOON, max_late=SOON, if_late=unknown)
    with pytest.raises(InvalidOptionError, match="give max_late"):
        schedule("orders", b"", after=SOON, if_late="drop")


def test_delivering_however_late_is_the_default_and_needs_no_header() -> None:
    assert schedule("orders", b"", after=SOON, if_late="deliver") == schedule("orders", b"", after=SOON)


def test_only_http_urls_get_failures() -> None:
    with pytest.raises(InvalidOptionError, match="not an http or https URL"):
        schedule("orders", b"", after=SOON, on_failure="shop.example/failed")


def test_a_misspelt_argument_is_an_error() -> None:
    misspelt: dict[str, Any] = {"afte": SOON}
    with pytest.raises(TypeError, match="afte"):
        schedule("orders", b"", **misspelt)


@pytest.mark.parametrize("operation", ["cancel", "deliver-now"])
def test_a_command_names_its_operation_and_its_id(operation: Operation) -> None:
    assert command(operation, "r-1") == Request(
        b"r-1", None, (("delay-op", operation.encode()), ("delay-id", b"r-1")), b"r-1"
    )


def test_rescheduling_carries_the_new_due_time() -> None:
    assert command("reschedule", "r-1", at=DUE).headers[2] == ("delay-at", b"1893456000000")
    assert command("reschedule", "r-1", after=SOON).headers[2] == ("delay-after", b"900000")


def test_a_condition_is_the_exact_due_time() -> None:
    assert command("cancel", "r-1", if_due=DUE).headers[-1] == ("delay-if-due", b"1893456000000")
    assert command("cancel", "r-1", asked_at=DUE).headers[-1] == ("delay-asked-at", b"1893456000000")


def test_every_refusal_is_a_value_error_and_a_delay_error() -> None:
    assert issubclass(InvalidRequestError, ValueError)
    assert issubclass(InvalidRequestError, DelayError)


def test_a_series_has_the_headers_of_its_options() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    hourly = schedule("orders", b"v", every=timedelta(hours=1), until=until, count=7, misfire="catch-up PT1H")
    nightly = schedule("orders", b"v", cron="30 2 * * *", zone="Europe/Berlin", at=until)

    assert dict(hourly.headers) == {
        "delay-to": b"orders",
        "delay-every": b"3600000",
        "delay-until": b"1893456000000",
        "delay-count": b"7",
        "delay-misfire": b"catch-up PT1H",
    }
    assert dict(nightly.headers)["delay-cron"] == b"30 2 * * *"
    assert dict(nightly.headers)["delay-at"] == b"1893456000000"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"every": timedelta(milliseconds=5)}, "the minimum interval"),
        ({"cron": "30 25 * * *"}, "its hour is invalid"),
        ({"cron": "@daily", "zone": "Europe/Berln"}, "the nearest is Europe/Berlin"),
        ({"zone": "UTC", "at": datetime(2030, 1, 1, tzinfo=UTC)}, "which says when the message recurs."),
    ],
)
def test_a_series_that_cannot_be_is_refused_in_the_workers_words(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOptionError, match=re.escape(says)):
        schedule("orders", b"v", **options)


@pytest.mark.parametrize("span", [timedelta.max, timedelta(days=999_999_999), timedelta(milliseconds=10**15)])
@pytest.mark.parametrize("option", ["after", "max_late", "dedupe", "no_later", "jitter", "every"])
def test_a_span_longer_than_the_contract_has_is_refused_at_once(option: str, span: timedelta) -> None:
    due = {} if option in ("after", "every") else {"after": SOON}
    with pytest.raises(InvalidRequestError, match=f"{option}=.* is too long: the maximum is timedelta"):
        schedule("orders", b"", **{**due, option: span})  # type: ignore[arg-type]

    with pytest.raises(InvalidRequestError, match=r"base=.* is too long"):
        exponential(timedelta.max)


def test_the_longest_span_is_taken() -> None:
    said = dict(schedule("orders", b"", after=timedelta(milliseconds=10**15 - 1)).headers)

    assert said["delay-after"] == b"999999999999999"


def test_a_maximum_lateness_of_zero_is_refused_where_it_would_drop_every_message() -> None:
    with pytest.raises(InvalidRequestError, match=r"max_late=.*beside if_late='drop' delivers nothing"):
        schedule("orders", b"", after=SOON, max_late=timedelta(0), if_late="drop")


def test_a_doubtful_cron_expression_is_warned_of() -> None:
    with pytest.warns(
        UserWarning, match=r"cron='\*/90 \* \* \* \*': the step of \*/90 is longer than the minute field"
    ):
        schedule("orders", b"", cron="*/90 * * * *")
