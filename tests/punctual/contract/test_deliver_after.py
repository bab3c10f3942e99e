"""Delayed topics, whose header says when."""

from dataclasses import replace

import pytest
from hypothesis import given

from tests.punctual.contract.foreign import DELIVER_AFTER, DUE, SET, beside, decode, outcome, records, refusal_of
from tests.punctual.contract.records import NOW, FakeRecord
from tests.punctual.contract.refused import REFUSED, Case

NAME = "deliver-after"


def test_a_message_is_delivered_unchanged_to_the_inputs_destination() -> None:
    asked = decode(SET[NAME], DELIVER_AFTER)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "orders", DUE)
    assert (asked.key, asked.value, asked.headers) == (b"k", b"v", DELIVER_AFTER.headers)
    assert asked.id == asked.source


def test_native_headers_say_what_it_cannot() -> None:
    asked = decode(SET[NAME], beside(DELIVER_AFTER, delay_id=b"a", delay_to=b"orders", delay_to_cluster=b"emea"))
    cancel = decode(SET[NAME], replace(DELIVER_AFTER, headers=[("delay-op", b"cancel"), ("delay-id", b"a")]))
    later = decode(SET[NAME], replace(DELIVER_AFTER, headers=[("delay-after", b"7")]))

    assert (asked.id, asked.to, asked.cluster) == ("a", "orders", "emea")
    assert (cancel.op, cancel.id, cancel.to) == ("cancel", "a", "")
    assert later.due_ms == NOW + 7


def test_without_its_header_a_record_is_due_at_once() -> None:
    asked = decode(SET[NAME], replace(DELIVER_AFTER, headers=[("user", None)]))

    assert (asked.due_ms, asked.headers) == (NOW, [("user", None)])


@pytest.mark.parametrize("case", REFUSED[NAME].values(), ids=REFUSED[NAME])
def test_what_is_wrong_is_refused_with_its_code_and_a_sentence(case: Case) -> None:
    refusal = refusal_of(case.setting or SET[NAME], case.record)

    assert refusal.reason == case.reason
    assert case.says in refusal.sentence


@given(records({"deliverAfter": [b"%d" % DUE, b"\xc2\xb2"]}))
def test_every_record_is_a_request_or_a_refusal(asked: FakeRecord) -> None:
    refusal = outcome(SET[NAME], asked).refusal

    assert refusal is None or refusal.reason in {case.reason for case in REFUSED[NAME].values()}
