"""Ids that a gateway makes are new, sort by time, and have the home partition of their key."""

import pytest

from app.base.clock import Clock
from app.serve.messages.receipts import Receipts
from punctual.contract.home import home_partition, key_partition
from punctual.contract.request import ID_BYTES


def test_an_id_lives_in_the_partition_of_its_key() -> None:
    receipts = Receipts("delay-requests", 16)
    for number in range(1_000):
        key = b"key-%d" % number
        assert home_partition(receipts.id(key), {"delay-requests"}, 16) == key_partition(key, 16)


def test_ids_without_a_key_are_spread() -> None:
    receipts = Receipts("delay-requests", 4)
    homes = [home_partition(receipts.id(None), {"delay-requests"}, 4) for _ in range(1_000)]
    assert {homes.count(home) > 150 for home in range(4)} == {True}


def test_ids_sort_by_time_as_text_and_differ_between_gateways(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (Receipts("r" * 200, 10_000) for _ in range(2))
    times = iter(range(1_795_000_000_000, 1_795_000_001_000))
    ids = []
    for now in times:
        monkeypatch.setattr(Clock, "wall_ms", lambda now=now: now)
        ids += [one.id(b"key") for _ in range(10)]
    assert ids == sorted(ids)
    assert len({*ids, *(other.id(b"key") for _ in range(10_000))}) == 20_000
    assert max(map(len, ids)) <= ID_BYTES - 16  # the suffix of a recurring message's occurrences


def test_a_moment_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    receipts = Receipts("delay-requests", 4)
    for wall, moment in ((5_000, 5_000), (3_000, 5_000), (5_001, 5_001)):
        monkeypatch.setattr(Clock, "wall_ms", lambda wall=wall: wall)
        assert receipts.moment_ms() == moment


def test_a_clock_that_is_set_back_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    receipts = Receipts("delay-requests", 4)
    for wall in (3_605_000, 3_604_500, 5_000, 5_001, 3_605_001, 3_605_002, 6_000):
        monkeypatch.setattr(Clock, "wall_ms", lambda wall=wall: wall)
        receipts.moment_ms()

    assert [message.partition(".")[0] for message in caplog.messages] == [
        "the clock was set back by 3600",
        "the clock was set back by 3599",
    ]
