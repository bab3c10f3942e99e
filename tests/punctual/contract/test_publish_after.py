"""A header of any name that says when."""

from dataclasses import replace

import pytest
from hypothesis import given

from tests.punctual.contract.foreign import DUE, PUBLISH_AFTER, SET, beside, but, decode, outcome, records, refusal_of
from tests.punctual.contract.records import NOW, FakeRecord
from tests.punctual.contract.refused import REFUSED, Case

NAME = "publish-after"


def test_a_message_is_delivered_unchanged_to_the_inputs_destination() -> None:
    asked = decode(SET[NAME], PUBLISH_AFTER)

    assert (asked.op, asked.to, asked.due_ms) == ("schedule", "orders", DUE)
    assert (asked.key, asked.value, asked.headers) == (b"k", b"v", PUBLISH_AFTER.headers)
    assert asked.id == asked.source


def test_the_headers_name_is_the_inputs_to_set() -> None:
    asked = replace(PUBLISH_AFTER, headers=[("after-ts", b"2026-01-01T00:01:00Z"), ("publish-after-ts", b"no time")])

    assert decode("publish-after:orders:after-ts", asked).due_ms == DUE
    refusal = refusal_of("publish-after:orders:after-ts", beside(asked, delay_after=b"1"))
    assert refusal.sentence == "after-ts and delay-after are both there. Send one of them."


def test_the_last_header_counts_and_an_empty_one_says_nothing() -> None:
    assert decode(SET[NAME], beside(PUBLISH_AFTER, ("publish-after-ts", b"7"))).due_ms == 7
    assert decode(SET[NAME], but(PUBLISH_AFTER, publish_after_ts=b"")).due_ms == NOW


def test_native_headers_say_what_it_cannot() -> None:
    asked = decode(SET[NAME], beside(PUBLISH_AFTER, delay_id=b"a", delay_to=b"orders", delay_to_cluster=b"emea"))
    cancel = decode(SET[NAME], replace(PUBLISH_AFTER, headers=[("delay-op", b"cancel"), ("delay-id", b"a")]))
    later = decode(SET[NAME], replace(PUBLISH_AFTER, headers=[("delay-after", b"7")]))

    assert (asked.id, asked.to, asked.cluster) == ("a", "orders", "emea")
    assert (cancel.op, cancel.id, cancel.to) == ("cancel", "a", "")
    assert later.due_ms == NOW + 7


def test_without_its_header_a_record_is_due_at_once() -> None:
    asked = decode(SET[NAME], replace(PUBLISH_AFTER, headers=[("user", None)]))

    assert (asked.due_ms, asked.headers) == (NOW, [("user", None)])


@pytest.mark.parametrize("case", REFUSED[NAME].values(), ids=REFUSED[NAME])
def test_what_is_wrong_is_refused_with_its_code_and_a_sentence(case: Case) -> None:
    refusal = refusal_of(case.setting or SET[NAME], case.record)

    assert refusal.reason == case.reason
    assert case.says in refusal.sentence


@given(records({"publish-after-ts": [b"%d" % DUE, b"2030-01-01T00:00:00Z", b"2022-09-01 00:00:00"]}))
def test_every_record_is_a_request_or_a_refusal(asked: FakeRecord) -> None:
    refusal = outcome(SET[NAME], asked).refusal

    assert refusal is None or refusal.reason in {case.reason for case in REFUSED[NAME].values()}
