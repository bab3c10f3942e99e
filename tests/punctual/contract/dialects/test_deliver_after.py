"""Delayed topics, whose header says when."""

from tests.punctual.contract.foreign import DELIVER_AFTER, DUE, SETTINGS, decode

NAME = "deliver-after"


def test_a_message_is_delivered_unchanged_to_the_inputs_destination() -> None:
    asked = decode(SETTINGS[NAME], DELIVER_AFTER)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "orders", DUE)
    assert (asked.key, asked.value, asked.headers) == (b"k", b"v", DELIVER_AFTER.headers)
    assert asked.id == asked.source
