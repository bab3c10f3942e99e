"""Delayed topics, whose header says when."""

from hypothesis import given

from tests.punctual.contract.foreign import DELIVER_AFTER, DUE, SET, decode, outcome, records
from tests.punctual.contract.records import FakeRecord
from tests.punctual.contract.refused import REFUSED

NAME = "deliver-after"


def test_a_message_is_delivered_unchanged_to_the_inputs_destination() -> None:
    asked = decode(SET[NAME], DELIVER_AFTER)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "orders", DUE)
    assert (asked.key, asked.value, asked.headers) == (b"k", b"v", DELIVER_AFTER.headers)
    assert asked.id == asked.source


@given(records({"deliverAfter": [b"%d" % DUE, b"\xc2\xb2"]}))
def test_every_record_is_a_request_or_a_refusal(asked: FakeRecord) -> None:
    refusal = outcome(SET[NAME], asked).refusal

    assert refusal is None or refusal.reason in {case.reason for case in REFUSED[NAME].values()}
