"""The sentence that an act leaves for the next page, and cookies that are none."""

from base64 import urlsafe_b64encode
from types import SimpleNamespace
from typing import Any

import pytest

from app.serve.console import flash


def read(text: str) -> flash.Flash | None:
    request: Any = SimpleNamespace(cookies={"punctual-outcome": text})
    return flash.read(request)


def test_a_sentence_survives_a_round_trip_in_its_cookie() -> None:
    answer = flash.see_other("/new", success=True, sentence="Asked for: é.")
    assert read(answer.cookies["punctual-outcome"].value) == flash.Flash("good", "Asked for: é.")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"level":"good"}', b'{"a":' * 2_000, b"\xff"])
def test_a_foreign_cookie_has_no_sentence(content: bytes) -> None:
    assert read(urlsafe_b64encode(content).decode().rstrip("=")) is None
    assert read("*" * 5) is None
