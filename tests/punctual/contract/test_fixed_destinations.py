"""The common behaviour of dialects whose input has one destination."""

from dataclasses import replace

import pytest

from tests.punctual.contract.foreign import DELIVER_AFTER, PUBLISH_AFTER, SETTINGS, SPRING, beside, decode
from tests.punctual.contract.records import NOW, FakeRecord

each = pytest.mark.parametrize(
    ("name", "record"), [("spring", SPRING), ("deliver-after", DELIVER_AFTER), ("publish-after", PUBLISH_AFTER)]
)


@each
def test_native_headers_add_options_that_the_dialect_lacks(name: str, record: FakeRecord) -> None:
    asked = decode(SETTINGS[name], beside(record, delay_id=b"a", delay_to=b"orders", delay_to_cluster=b"emea"))
    cancel = decode(SETTINGS[name], replace(record, headers=[("delay-op", b"cancel"), ("delay-id", b"a")]))
    later = decode(SETTINGS[name], replace(record, headers=[("delay-after", b"7")]))

    assert (asked.id, asked.to, asked.cluster) == ("a", "orders", "emea")
    assert (cancel.op, cancel.id, cancel.to) == ("cancel", "a", "")
    assert later.due_ms == NOW + 7


@each
def test_without_its_header_a_record_is_due_at_once(name: str, record: FakeRecord) -> None:
    asked = decode(SETTINGS[name], replace(record, headers=[("user", None)]))

    assert (asked.due_ms, asked.headers) == (NOW, [("user", None)])
