"""Requests mean the same in the words of each system."""

import pytest

from benchmarks.wording import WORDINGS
from punctual.contract import native
from punctual.contract.dialects import etf1
from tests.punctual.contract.records import FakeRecord

DECODE = {"native": native.decode, "etf1": etf1.decode}


@pytest.mark.parametrize("name", WORDINGS)
def test_a_request_is_read_as_it_was_meant(name: str) -> None:
    wording = WORDINGS[name]
    due_ms = 1_800_000_007_000
    record = FakeRecord(wording.headers("orders", due_ms, b"steady-1"), key=b"steady-1")

    request = DECODE[name](record)

    assert (request.to, request.due_ms, request.id, request.key) == ("orders", due_ms, "steady-1", b"steady-1")
    assert due_ms % wording.unit_ms == 0
