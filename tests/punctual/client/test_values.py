"""Values are sent as bytes unchanged, text as UTF-8, structures as compact JSON."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import faust
import msgspec
import pytest

from punctual import InvalidValueError
from punctual.client.values import key_bytes, value_bytes


class Order(faust.Record, serializer="json"):  # type: ignore[call-arg]  # Faust has no types here
    id: str
    total: float


class Plain(faust.Record):
    id: str


class Basket(faust.Record):
    orders: list[Order]


@dataclass
class Item:
    name: str
    price: float


class Point(msgspec.Struct):
    x: int
    y: int


def test_bytes_pass_unchanged() -> None:
    every_byte = bytes(range(256))

    assert value_bytes(every_byte) == every_byte
    assert value_bytes(bytearray(every_byte)) == every_byte
    assert value_bytes(memoryview(every_byte)) == every_byte
    assert value_bytes(b"") == b""


def test_none_is_kafkas_null_and_not_the_word() -> None:
    assert value_bytes(None) is None
    assert key_bytes(None) is None


def test_text_is_utf8_without_quotes() -> None:
    assert value_bytes("zwölf ☕") == "zwölf ☕".encode()
    assert key_bytes("ключ") == "ключ".encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"order": 42, "who": "Zoë"}, '{"order":42,"who":"Zoë"}'),
        ([1, {"a": None}], '[1,{"a":null}]'),
        (("x", 2), '["x",2]'),
        (Item("cup", 12.4), '{"name":"cup","price":12.4}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (True, "true"),
        ({"at": datetime(2030, 1, 1, tzinfo=UTC), "id": UUID(int=1)}, None),
    ],
)
def test_structures_become_compact_json(value: object, written: str | None) -> None:
    written = written or '{"at":"2030-01-01T00:00:00Z","id":"00000000-0000-0000-0000-000000000001"}'
    assert value_bytes(value) == written.encode()


def test_a_faust_record_is_written_as_faust_writes_it() -> None:
    order = Order(id="o-1", total=12.5)

    assert value_bytes(order) == order.dumps()


def test_a_faust_record_without_a_serializer_is_json_that_faust_reads_back() -> None:
    written = value_bytes(Plain(id="o-1"))

    assert written is not None
    assert Plain.loads(written, serializer="json") == Plain(id="o-1")


def test_faust_records_inside_other_values_keep_their_fields() -> None:
    basket = value_bytes(Basket(orders=[Order(id="o-1", total=2.0)]))

    assert basket is not None
    assert msgspec.json.decode(basket)["orders"][0]["id"] == "o-1"


@pytest.mark.parametrize("value", [object(), {"f": lambda: None}, {1 + 2j: 1}, float])
def test_values_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(InvalidValueError, match="encode it to bytes yourself"):
        value_bytes(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    knot: list[Any] = []
    knot.append(knot)

    with pytest.raises(InvalidValueError, match="cannot be written as JSON"):
        value_bytes(knot)


@pytest.mark.parametrize("key", [1, ["a"], {"a": 1}])
def test_keys_are_never_guessed(key: Any) -> None:
    with pytest.raises(InvalidValueError, match="not bytes, str or None"):
        key_bytes(key)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="not valid Unicode"):
        value_bytes("\ud800")
    with pytest.raises(InvalidValueError, match="not valid Unicode"):
        key_bytes("\ud800")
