"""Bytes of a message as a page shows them, whatever a sender has put there."""

import json

import msgspec
import pytest

from app.serve.console.payload import Payload, of
from app.serve.search import pending


def shown(content: bytes, wanted: str = "") -> Payload:
    found = of({"value": msgspec.to_builtins(pending.shown(content))}, wanted)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("content", "views"),
    [
        (b'{"a": [1, {"b": null}]}', ["json", "text", "hex"]),
        (b' \n[1.10, "x\\"]}\\\\", {}]', ["json", "text", "hex"]),
        (b"plain\ttext\r\n", ["text", "hex"]),
        (b'"a string"', ["text", "hex"]),
        (b'{"a":', ["text", "hex"]),
        (b'{"a":"\xff"}', ["hex"]),
        (b"a\x00b", ["hex"]),
        (b"a\x1fb", ["hex"]),
        (b"", ["text", "hex"]),
    ],
)
def test_bytes_are_shown_in_the_views_that_fit_them(content: bytes, views: list[str]) -> None:
    assert shown(content).views == views


def test_json_is_indented_and_keeps_its_digits() -> None:
    text = shown(b'{"a":[1.10,{"b":[]}],"c":"]]}"}').text
    assert text == '{\n  "a": [\n    1.10,\n    {\n      "b": []\n    }\n  ],\n  "c": "]]}"\n}'


@pytest.mark.core
@pytest.mark.parametrize(
    "content",
    [
        b"[" * 900 + b"1," * 400_000 + b"1" + b"]" * 900,
        b'{"a":[' + b"[]," * 300_000 + b"1]}",
        b'["]]]]]]]]",' * 900 + b"1," * 300_000 + b"1" + b"]" * 900,
    ],
    ids=["layers", "lines", "brackets in strings"],
)
def test_json_that_would_fill_a_page_with_blanks_is_shown_as_text(content: bytes) -> None:
    json.loads(content)
    found = shown(content)
    assert found.views == ["text", "hex"]
    assert len(found.text) == len(content)
    assert len(shown(content, "json").text) == len(content)


def test_long_texts_in_json_need_no_blanks() -> None:
    assert shown(b'{"a":"' + b"[{,\\n" * 200_000 + b'"}').view == "json"
