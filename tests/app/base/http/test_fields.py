"""Header fields: text from messages becomes a value, and cannot add fields."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.base.http.fields import NEVER, content_type, encoded, travelling

ALL = ("*",)


@given(st.text())
def test_any_text_becomes_visible_ascii_and_can_be_read_back(text: str) -> None:
    said = encoded(text)

    assert re.fullmatch(r"[\x21-\x7e]*", said)
    if not re.search("[\ud800-\udfff]", text):
        assert unquote(said) == text


@pytest.mark.parametrize(
    ("text", "said"), [("order-17", "order-17"), ("a\r\nb: c", "a%0D%0Ab:%20c"), ("50%é", "50%25%C3%A9")]
)
def test_visible_characters_stay_unchanged(text: str, said: str) -> None:
    assert encoded(text) == said


def test_headers_travel_only_as_listed() -> None:
    given_ = [("X-Tenant", b"7"), ("x-tenant", b"8"), ("trace", b"t"), ("Authorization", b"Bearer x"), ("Cookie", b"c")]

    assert travelling(given_, ()) == []
    assert travelling(given_, ("x-*",)) == [("X-Tenant", "7"), ("x-tenant", "8")]
    assert travelling(given_, ALL) == [("X-Tenant", "7"), ("x-tenant", "8"), ("trace", "t")]
    assert travelling(given_, ("authorization", "cookie")) == [("Authorization", "Bearer x"), ("Cookie", "c")]


@pytest.mark.parametrize("name", [*sorted(NEVER), "webhook-signature", "Webhook-Id", "delay-id", "Delay-Id", "HOST"])
def test_fields_of_the_connection_and_of_the_signer_are_never_sent(name: str) -> None:
    assert travelling([(name, b"x")], (*ALL, name.lower())) == []


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb", b"a\rb", b"a\x00b", b"\x7f", b"\xff", b" a", b"a ", b"\t"])
def test_what_no_field_can_hold_stays_behind(value: bytes) -> None:
    assert travelling([("x", value)], ALL) == []
    assert content_type([("content-type", value)]) == "application/octet-stream"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "\u00e9", "a\x00", "x" * 257])
def test_an_invalid_field_name_is_left_out(name: str) -> None:
    assert travelling([(name, b"x")], ALL) == []


def test_null_is_empty_and_text_is_utf_8() -> None:
    assert travelling([("a", None), ("b", "\u00e9".encode()), ("c", b"a\tb c")], ALL) == [
        ("a", ""),
        ("b", "\u00e9"),
        ("c", "a\tb c"),
    ]


def test_the_last_content_type_of_any_case_counts() -> None:
    assert content_type([]) == "application/octet-stream"
    assert content_type([("Content-Type", b"application/json")]) == "application/json"
    assert (
        content_type([("content-type", b"text/plain"), ("CONTENT-TYPE", b"text/csv"), ("content-type", b"")])
        == "text/csv"
    )
