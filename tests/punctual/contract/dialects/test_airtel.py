"""JSON with a post time."""

from dataclasses import replace

import pytest

from punctual.contract.dialects.dialects import dialect_of
from tests.punctual.contract.foreign import AIRTEL, CONTENTS, DUE, beside, decode, refusal_of
from tests.punctual.contract.records import NOW, FakeRecord

NAME = "airtel"


def test_the_documented_message_is_accepted_as_it_stands() -> None:
    asked = decode(NAME, AIRTEL)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "topic_name", 12_312_031_310)
    assert (asked.key, asked.value, asked.headers, asked.on_failure) == (b"key", b"{}", [], None)
    assert asked.id == asked.source == "foreign-3-42"


def test_the_delivery_comes_from_the_json_alone() -> None:
    more = '"value":"v","key":null,"headers":{"b":"1","a":"\\u00e9","c":null},"failurePostCallbackUrl":"https://a"'
    asked = decode(NAME, replace(_with(more), headers=[("own", b"1")]))

    assert (asked.due_ms, asked.key, asked.on_failure) == (DUE, None, "https://a")
    assert asked.headers == [("b", b"1"), ("a", "é".encode()), ("c", None)]


@pytest.mark.parametrize(
    ("written", "due_ms"),
    [
        (f'"{DUE}"', DUE), (f"{DUE}.0", DUE), (f"{DUE}.25", DUE + 1), (f'"{DUE}.25"', DUE + 1),
        ("1.7959493151235E+12", 1_795_949_315_124), ('" 1795949315123 "', 1_795_949_315_123), ("0.1", 1), ("0.0", 0),
        ("0e-999999999", 0),
    ],
)  # fmt: skip
def test_a_post_time_may_be_written_as_text_or_with_a_fraction(written: str, due_ms: int) -> None:
    record = replace(AIRTEL, value=f'{{"topic":"t","value":1,"postTime":{written}}}'.encode())
    assert decode(NAME, record).due_ms == due_ms


@pytest.mark.parametrize("written", ['""', "null"])
def test_an_empty_post_time_is_none(written: str) -> None:
    record = replace(AIRTEL, value=f'{{"topic":"t","value":1,"postTime":{written}}}'.encode())
    assert decode(NAME, beside(record, delay_after=b"7")).due_ms == NOW + 7


@pytest.mark.parametrize(
    "written", ["1893456000.5", '"1893456000"', "1e-999999999", "9e99", '"٣"', '"1_0"', "true", '"NaN"', "[]"]
)
def test_other_post_times_are_refused_or_small_at_no_cost(written: str) -> None:
    record = replace(AIRTEL, value=f'{{"topic":"t","value":1,"postTime":{written}}}'.encode())
    if written.startswith("1e-"):
        assert decode(NAME, record).due_ms == 1
    else:
        assert refusal_of(NAME, record).reason == "malformed"


@pytest.mark.parametrize(
    ("text", "content"),
    CONTENTS,
)
def test_text_becomes_its_utf8_and_other_json_keeps_its_digits(text: str, content: bytes) -> None:
    assert decode(NAME, _with(f'"value":{text}')).value == content


def test_native_headers_add_options_that_the_dialect_lacks() -> None:
    url = '"value":1,"failurePostCallbackUrl":"https://a"'
    asked = decode(NAME, beside(_with(url), delay_id=b"a", delay_dedupe=b"PT1M", delay_on_failure=b"https://a"))
    moved = decode(NAME, beside(replace(AIRTEL, value=None), delay_id=b"a", delay_op=b"reschedule", delay_after=b"1"))

    assert (asked.id, asked.dedupe_ms, asked.on_failure) == ("a", 60_000, "https://a")
    assert (moved.op, moved.id, moved.due_ms) == ("reschedule", "a", NOW + 1)


def test_fields_deeper_inside_are_the_messages_own() -> None:
    inside = '{"topic":"x","value":{"postTime":1,"postTime":2}}'

    assert decode(NAME, _with(f'"value":{inside}')).value == inside.encode()


def test_what_else_the_json_says_is_passed_over() -> None:
    assert decode(NAME, _with('"value":1,"tries":{"deep":[1]}')).value == b"1"


@pytest.mark.parametrize(
    ("value", "header", "url"),
    [
        (b'{"failurePostCallbackUrl":"https://a"}', None, "https://a"),
        (b'{"failurePostCallbackUrl":"https://a","postTime":"never"}', b"https://a", "https://a"),
        (b'{"failurePostCallbackUrl":"https://a"}', b"https://b", ""),
        (b'{"failurePostCallbackUrl":7}', b"https://b", "https://b"),
        (b"no JSON", None, ""),
        (None, None, ""),
    ],
)
def test_a_refused_record_tells_the_address_that_it_names(value: bytes | None, header: bytes | None, url: str) -> None:
    headers: list[tuple[str, bytes | None]] = [("user", b"1"), ("delay-on-failure", header)]

    users = [("user", b"1")] if url else []
    assert dialect_of(NAME).callback(replace(AIRTEL, value=value, headers=headers)) == (url, users)


def _with(more: str) -> FakeRecord:
    return replace(AIRTEL, value=f'{{"topic":"t","postTime":{DUE},{more}}}'.encode())
