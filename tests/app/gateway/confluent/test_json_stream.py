"""Concatenated JSON objects are found whole, however the bytes come."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.confluent.json_stream import NotJson, Splitter

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(['"', "\\", '\\"', "{}", "}{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), max_size=5)


def cut(text: bytes, *, size: int = 1, most: int = 1_000_000) -> tuple[list[Any], Splitter]:
    splitter = Splitter(most)
    found: list[bytes] = []
    for place in range(0, len(text), size):
        found += splitter.feed(text[place : place + size])
    return [json.loads(one) for one in found], splitter


@given(OBJECTS, st.integers(1, 40), st.sampled_from([b"", b"\n", b" \r\n\t"]), st.booleans())
def test_objects_are_found_in_chunks_of_every_size(objects: list[Any], size: int, between: bytes, escape: bool) -> None:  # noqa: FBT001
    text = between.join(json.dumps(one, ensure_ascii=escape).encode() for one in objects)
    found, splitter = cut(text, size=size)
    assert found == objects
    assert not splitter.is_amid


@pytest.mark.parametrize("text", [b"[{}]", b'"x"', b"{} x {}", b"}", b"1", b"{}]", b"{}, {}", b"\xff", b"null{}"])
def test_values_other_than_objects_are_refused(text: bytes) -> None:
    for size in (1, 100):
        with pytest.raises(NotJson):
            cut(text + b"{}", size=size)


def test_objects_before_a_refused_value_are_found() -> None:
    splitter = Splitter(100)
    pieces = splitter.feed(b'{"a":1} nonsense {}')
    assert next(pieces) == b'{"a":1}'
    with pytest.raises(NotJson):
        next(pieces)


@pytest.mark.parametrize("text", [b'{"a":', b'{"a":"}', b'{"a":"\\"}', b"  {"])
def test_an_incomplete_object_is_reported(text: bytes) -> None:
    found, splitter = cut(text)
    assert not found
    assert splitter.is_amid


def test_complete_and_incomplete_objects_have_a_maximum_size() -> None:
    assert cut(b'{"a":"%b"}' % (b"x" * 92), size=1_000, most=100)[0]
    for text in (b'{"a":"%b"}' % (b"x" * 93), b'{"a":"%b' % (b"x" * 100)):
        for size in (7, 1_000):
            with pytest.raises(NotJson, match="more than 100 bytes"):
                cut(text, size=size, most=100)


def test_blanks_between_objects_use_no_memory() -> None:
    splitter = Splitter(1_000_000)
    for _ in range(100):
        assert list(splitter.feed(b" \n" * 1_000)) == []
        assert len(splitter._buffer) == 0
        assert not splitter.is_amid
    assert list(splitter.feed(b" {} ")) == [b"{}"]
