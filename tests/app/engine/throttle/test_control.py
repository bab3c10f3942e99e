"""Control records of operators, and foreign records."""

import json

import msgspec
import pytest

from app.engine.throttle.control import Control, decode
from punctual.contract.rate import Rate
from tests.harness.fuzz import mangled, seeds


def decoded(**said: object) -> Control | None:
    return decode(b"emails", json.dumps(said).encode())[1]


def test_a_pause_says_why_and_who() -> None:
    found = decode(b"emea/orders", b'{"paused": true, "reason": "the shop is closed", "by": "Ann"}')

    assert found == (("emea", "orders"), Control(paused=True, reason="the shop is closed", by="Ann"))


@pytest.mark.parametrize(
    "until", [1_893_456_000_000, "1893456000000", "2030-01-01T00:00:00Z", "2030-01-01T01:00:00+01:00"]
)
def test_it_may_say_until_when(until: object) -> None:
    control = decoded(paused=True, until=until)

    assert control is not None
    assert control.until_ms == 1_893_456_000_000
    assert control.pauses(1_893_455_999_999)
    assert not control.pauses(1_893_456_000_000)


@pytest.mark.parametrize(("said", "rate"), [("5/s burst 2", Rate(5.0, 2)), (5, Rate(5.0)), (0.5, Rate(0.5))])
def test_it_may_say_how_much(said: object, rate: Rate) -> None:
    assert decoded(rate=said) == Control(rate=rate)


def test_none_lifts_the_cap_of_the_settings() -> None:
    assert decoded(rate="none") == Control(unlimited=True)
    assert decoded(rate=None) == Control()


def test_no_value_leaves_it_to_the_settings() -> None:
    assert decode(b"emails", None) == ((None, "emails"), None)


def test_fields_of_newer_workers_are_passed_over() -> None:
    assert decoded(paused=True, colour="red", reason=None) == Control(paused=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"\xff", b"{}"),
        (b"https://host/path", b"{}"),
        (b"emails", b""),
        (b"emails", b"[]"),
        (b"emails", b'{"paused": "yes"}'),
        (b"emails", b'{"until": "tomorrow"}'),
        (b"emails", b'{"until": 1893456000}'),
        (b"emails", b'{"until": -1}'),
        (b"emails", b'{"until": 99999999999999999}'),
        (b"emails", b'{"rate": 0}'),
        (b"emails", b'{"rate": "fast"}'),
        (b"emails", b'{"rate": 1e999}'),
        (b"emails", b"[" * 50_000),
    ],
)
def test_valid_and_invalid_controls_are_distinguished(key: bytes | None, value: bytes) -> None:
    with pytest.raises((ValueError, msgspec.MsgspecError, RecursionError)):
        decode(key, value)


def test_whatever_stands_there_is_a_control_or_an_error_that_is_expected() -> None:
    value = b'{"paused": true, "reason": "r", "by": "b", "until": "2030-01-01T00:00:00Z", "rate": "5/s burst 3"}'
    for seed in seeds(2_000):
        key, raw = mangled(seed, [(b"emails", value), (b"emea/orders", b'{"rate": 5.5}')])
        try:
            _, control = decode(key, raw)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            continue
        assert control is None or len(control.reason) <= 500
