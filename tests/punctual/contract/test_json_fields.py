"""JSON of other dialects costs no more than its bytes: objects have a maximum of fields, and a value one of bytes."""

import time
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from punctual.contract.dialects import airtel
from punctual.contract.dialects.json_body import MAX_BYTES
from punctual.contract.json_fields import MAX_FIELDS, SHORT, fields
from punctual.contract.request import Reason, Refusal
from tests.punctual.contract.foreign import AIRTEL, COUNTDOWN, decode

BODIES = {"airtel": '"postTime":1893456000000,"value"', "countdown": '"countdown":1,"message"'}
RECORDS = {"airtel": AIRTEL, "countdown": COUNTDOWN}


def body(dialect: str, rest: str, content: str = '"x"') -> bytes:
    """Return JSON that asks for a message, with further fields behind the usual ones."""
    return f'{{"topic":"orders",{BODIES[dialect]}:{content}{rest}}}'.encode()


def taken(dialect: str, value: bytes) -> Callable[[], object]:
    """Return a function that decodes a value, and returns the refusal of an invalid value."""

    def act() -> object:
        try:
            return decode(dialect, replace(RECORDS[dialect], value=value))
        except Refusal as refusal:
            return refusal

    return act


def refused(dialect: str, value: bytes) -> Refusal:
    found = taken(dialect, value)()
    assert isinstance(found, Refusal), found
    return found


@pytest.mark.parametrize("dialect", BODIES)
@pytest.mark.parametrize("name", ["{}", "same"])
def test_an_object_has_a_maximum_of_fields(dialect: str, name: str) -> None:
    more = "".join(f',"{name.format(number)}":1' for number in range(MAX_FIELDS - 3))
    assert decode(dialect, replace(RECORDS[dialect], value=body(dialect, more))).to == "orders"

    refusal = refused(dialect, body(dialect, more + ',"one more":1'))

    assert refusal.reason is Reason.TOO_LARGE
    assert refusal.sentence == "the value is an object of more than 1,000 fields, which is the maximum. Send fewer."


def test_headers_have_the_same_maximum() -> None:
    names = [f'"header {number}":"v"' for number in range(MAX_FIELDS + 1)]
    asked = decode("airtel", replace(AIRTEL, value=body("airtel", f',"headers":{{{",".join(names[:-1])}}}')))
    assert len(asked.headers) == MAX_FIELDS

    refusal = refused("airtel", body("airtel", f',"headers":{{{",".join(names)}}}'))

    assert refusal.reason is Reason.TOO_LARGE
    assert refusal.sentence.startswith("`$.headers` is an object of more than 1,000 fields")


@pytest.mark.parametrize("dialect", BODIES)
def test_objects_that_are_delivered_have_as_many_fields_as_they_like(dialect: str) -> None:
    content = f'{{"a":[{",".join(["1"] * 200_000)}]{",1:2".replace("1", chr(34) + "n" + chr(34)) * 5_000}}}'
    found = decode(dialect, replace(RECORDS[dialect], value=body(dialect, "", content)))
    assert found.value == content.encode()


@pytest.mark.parametrize("dialect", BODIES)
def test_json_of_more_bytes_than_are_read_is_too_large(dialect: str) -> None:
    largest = body(dialect, " " * (MAX_BYTES - len(body(dialect, ""))))
    assert decode(dialect, replace(RECORDS[dialect], value=largest)).value == b"x"

    refusal = refused(dialect, largest + b" ")

    assert refusal.reason is Reason.TOO_LARGE
    assert "6,291,457 bytes of JSON. The maximum is 6,291,456." in refusal.sentence


@pytest.mark.parametrize(
    "rest",
    [
        "",
        ',"key":"k","headers":{"a":"1","b":null},"failurePostCallbackUrl":"https://example.com"',
        ',"key":"d\\u00e9j\\u00e0","other":{"topic":1}',
        ',"topic":"others"',
        ',"postTime":1',
        ',"key":1',
        ',"headers":[]',
        ',"headers":{"a":1}',
        ',"headers":null,"key":null',
        ',"failurePostCallbackUrl":{}',
        ',"other":[1,}',
        ',"other"',
        ',"other":nul',
    ],
)
def test_long_json_means_the_same_as_short_json(rest: str) -> None:
    short = taken("airtel", body("airtel", rest))()
    long = taken("airtel", body("airtel", rest) + b" " * SHORT)()
    if isinstance(short, Refusal):
        assert isinstance(long, Refusal)
        assert (long.reason, long.sentence) == (short.reason, short.sentence)
    else:
        assert long == short


def test_a_field_that_is_there_twice_is_found_however_it_is_written() -> None:
    refusal = refused("airtel", body("airtel", ',"\\u0074opic":"others"') + b" " * SHORT)
    assert refusal.sentence == "`$.topic` is given twice. Send it once."


def test_the_fields_of_an_object_are_its_last_values_and_the_names_that_come_again() -> None:
    found, repeated = fields(b'{"a":1,"b":{"b":2},"a":[3]}')
    assert {name: bytes(value) for name, value in found.items()} == {"a": b"[3]", "b": b'{"b":2}'}
    assert repeated == {"a"}


SIZE = MAX_BYTES - 1_000
#: Values of almost the maximum of bytes, each made where it is tried.
SHAPES: dict[str, Callable[[], bytes]] = {
    "fields": lambda: body("airtel", ',"a":1' * (SIZE // 6)),
    "fields, and a known name inside one of the values": lambda: body(
        "airtel", ',"x":{"topic":1}' + "".join(f',"{number}":1' for number in range(SIZE // 13))
    ),
    "a field again and again": lambda: body("airtel", ',"topic":"t"' * (SIZE // 12)),
    "headers": lambda: body(
        "airtel", f',"headers":{{{",".join(f"{chr(34)}{n}{chr(34)}:null" for n in range(SIZE // 15))}}}'
    ),
    "numbers": lambda: body("airtel", "", f"[{'1,' * (SIZE // 2)}1]"),
    "objects": lambda: body("airtel", "", f"[{'{},' * (SIZE // 3)}1]"),
    "known names inside the delivered value": lambda: body(
        "airtel", "", f"[{(chr(34) + 'topic' + chr(34) + ',') * (SIZE // 8)}1]"
    ),
    "escapes": lambda: body("airtel", "", f'"{chr(92)}n{(chr(92) + "n") * (SIZE // 2)}"'),
    "other fields of many parts": lambda: body("airtel", f',"other":[{"1,[]," * (SIZE // 5)}1]'),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_json_costs_much_more_than_a_look_at_each_of_its_parts(shape: str) -> None:
    record = replace(AIRTEL, value=SHAPES[shape]())
    parts = b"[" + b"1," * (SIZE // 2) + b"1]"

    def passes() -> float:
        return _seconds(lambda: (taken("airtel", record.value or b"")(), airtel.callback(record))) / _seconds(
            lambda: msgspec.json.decode(parts, type=msgspec.Raw)
        )

    assert min(passes() for _ in range(3)) < 10


def _seconds(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
