"""A header of any name that says when."""

from dataclasses import replace

from tests.punctual.contract.foreign import DUE, PUBLISH_AFTER, SETTINGS, beside, but, decode, refusal_of
from tests.punctual.contract.records import NOW

NAME = "publish-after"


def test_a_message_is_delivered_unchanged_to_the_inputs_destination() -> None:
    asked = decode(SETTINGS[NAME], PUBLISH_AFTER)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "orders", DUE)
    assert (asked.key, asked.value, asked.headers) == (b"k", b"v", PUBLISH_AFTER.headers)
    assert asked.id == asked.source


def test_the_headers_name_is_the_inputs_to_set() -> None:
    asked = replace(PUBLISH_AFTER, headers=[("after-ts", b"2026-01-01T00:01:00Z"), ("publish-after-ts", b"no time")])

    assert decode("publish-after:orders:after-ts", asked).due_ms == DUE
    refusal = refusal_of("publish-after:orders:after-ts", beside(asked, delay_after=b"1"))
    assert refusal.sentence == "after-ts and delay-after are both given. Send one of them."


def test_the_last_header_counts_and_an_empty_one_is_ignored() -> None:
    assert decode(SETTINGS[NAME], beside(PUBLISH_AFTER, ("publish-after-ts", b"7"))).due_ms == 7
    assert decode(SETTINGS[NAME], but(PUBLISH_AFTER, publish_after_ts=b"")).due_ms == NOW
