"""JSON with a countdown."""

from dataclasses import replace

import pytest

from tests.punctual.contract.foreign import CONTENTS, COUNTDOWN, beside, decode
from tests.punctual.contract.records import NOW, FakeRecord

NAME = "countdown"


def test_the_documented_message_is_due_when_it_has_counted_down() -> None:
    asked = decode(NAME, COUNTDOWN)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "T", NOW + 120_000)
    assert (asked.key, asked.value, asked.headers) == (b"k", b"<message body>", [("CALLER_SERVICE", b"S")])
    assert asked.id == asked.source == "foreign-3-42"


@pytest.mark.parametrize(
    ("countdown", "span_ms"),
    [("0", 0), ("1.5", 1_500), ("0.0001", 1), ("1e3", 1_000_000), ("1e-999999", 1), ("0e999999", 0), ("0.1", 100)],
)
def test_fractions_of_a_second_round_up(countdown: str, span_ms: int) -> None:
    asked = decode(NAME, _with(f'"message":"","countdown":{countdown}'))

    assert asked.due_ms == NOW + span_ms


@pytest.mark.parametrize(
    ("text", "content"),
    CONTENTS,
)
def test_text_becomes_its_utf8_and_other_json_keeps_its_digits(text: str, content: bytes) -> None:
    assert decode(NAME, _with(f'"countdown":1,"message":{text}')).value == content


def test_native_headers_add_options_that_the_dialect_lacks() -> None:
    asked = decode(NAME, beside(COUNTDOWN, delay_id=b"a", delay_to_partition=b"2", delay_max_late=b"PT1S"))
    cancel = decode(NAME, replace(beside(COUNTDOWN, delay_id=b"a", delay_op=b"cancel"), value=None))

    assert (asked.id, asked.partition, asked.max_late_ms) == ("a", 2, 1_000)
    assert (cancel.op, cancel.id, cancel.value) == ("cancel", "a", None)


def test_a_missing_part_can_be_a_native_header() -> None:
    asked = decode(NAME, beside(replace(COUNTDOWN, value=b'{"message":1}'), delay_to=b"t", delay_after=b"7"))

    assert (asked.to, asked.due_ms) == ("t", NOW + 7)


def test_the_id_that_a_delivery_came_with_is_not_asked_for() -> None:
    asked = decode(NAME, beside(COUNTDOWN, delay_id=b"before", delay_due=b"1", delay_source=b"a-0-1"))

    assert asked.id == asked.source


def _with(more: str) -> FakeRecord:
    return replace(COUNTDOWN, value=f'{{"topic":"t",{more}}}'.encode())
