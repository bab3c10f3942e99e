"""A request's wire form: forwards of one version are read by another."""

import msgspec
import pytest

from punctual.contract import request
from punctual.contract.recurrence import Recurrence
from punctual.contract.request import Parked, Reason, Request

FULL = Request(
    "schedule",
    "order-17",
    "orders-3-42",
    1_767_225_600_000,
    "orders",
    1_767_225_660_000,
    "reminders",
    b"k",
    None,
    [("a", b"1"), ("a", None)],
    2,
    "emea",
    5_000,
    "drop",
    60_000,
    "https://example.com/back",
    7,
    Parked(1_767_225_600_000, 1_767_225_600_001, "orders-3-41", 1_767_225_599_999),
    9,
    10_000,
    500,
    Recurrence(3_600_000, None, 1_767_225_660_000, None, 1_798_761_600_000, 12, "catch-up-last", 60_000, 500),
    1_767_225_660_000,
)
FROZEN = bytes.fromhex(
    "dc0017a87363686564756c65a86f726465722d3137ab6f72646572732d332d3432cf0000019b76daa800a66f7264657273cf"
    "0000019b76db9260a972656d696e64657273c4016bc09292a161c4013192a161c002a4656d6561cd1388a464726f70cdea60"
    "b868747470733a2f2f6578616d706c652e636f6d2f6261636b0794cf0000019b76daa800cf0000019b76daa801ab6f726465"
    "72732d332d3431cf0000019b76daa7ff09cd2710cd01f499ce0036ee80c0cf0000019b76db9260c0cf000001a2ce8bd4000c"
    "ad63617463682d75702d6c617374cdea60cd01f4cf0000019b76db9260"
)


def test_the_wire_form_of_a_forward_is_frozen() -> None:
    assert request.encode(FULL) == FROZEN
    assert request.decode(FROZEN) == FULL


def test_the_forward_of_a_series_says_whether_its_request_has_said_when_it_begins() -> None:
    for says, last in ((True, "c3"), (False, "c2")):
        asked = msgspec.structs.replace(FULL, says_when=says)

        assert request.encode(asked).hex() == "dc0018" + FROZEN.hex()[6:] + last
        assert request.decode(request.encode(asked)) == asked


def test_a_forward_of_an_older_worker_is_read_with_defaults_for_missing_fields() -> None:
    raw = msgspec.msgpack.encode(["cancel", "a", "orders-3-42", 5, "orders"])

    assert request.decode(raw) == Request("cancel", "a", "orders-3-42", 5, "orders")


def test_a_forward_of_a_newer_worker_is_read_without_its_unknown_fields() -> None:
    full = msgspec.structs.replace(FULL, says_when=False)
    raw = msgspec.msgpack.encode([*msgspec.msgpack.decode(request.encode(full)), "from the future"])

    assert request.decode(raw) == full


@pytest.mark.parametrize("raw", [b"", b"\xc0", b"hello", b"\x95\x01\x02\x03\x04\x05"])
def test_an_invalid_forward_is_recognised(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        request.decode(raw)


def test_the_reason_codes_are_frozen() -> None:
    assert sorted(Reason) == [
        "ambiguous-due",
        "attempts-exhausted",
        "bad-id",
        "bad-timestamp",
        "invalid-record",
        "malformed",
        "missing-destination",
        "missing-due",
        "not-allowed",
        "quota",
        "too-far",
        "too-large",
        "too-late",
        "too-many-destinations",
        "undeliverable",
        "unknown-cluster",
        "unknown-topic",
    ]
