"""Marks that a sender makes a worker remember are limited in time, and count for its namespace."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import rocksdict

from app.settings.settings import Settings
from punctual.contract.request import Refusal
from tables import Changes, NamespaceShare
from tests.app.engine.ingest.test_quotas import Limited
from tests.app.workbench import Workbench
from tests.punctual.contract.records import NOW

DAY_MS = 86_400_000


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    made = Limited(tmp_path / "limited.db", "orders=remembered:3")
    yield made
    made.assert_balanced()
    made.close()


def _deliver(limited: Limited, id_: str) -> None:
    limited.seconds += 1
    limited.run(limited.delivered(limited.claim(f"orders/{id_}")))


def _shares(bench: Workbench) -> dict[str, NamespaceShare]:
    assert bench.store.shares is not None
    return dict(bench.store.shares.known)


def _error(bench: Workbench) -> bytes:
    return dict(bench.sends[-1].headers)["delay-error"] or b""


def _expires_ms(bench: Workbench) -> int:
    delivered = bench.store.delivered.get("a")
    assert delivered is not None
    return delivered.expires_ms


def test_a_window_is_at_most_as_long_as_the_settings_allow(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db")
    for id_, window in (("a", "P30D"), ("b", "2592000001"), ("c", "999999999999999")):
        bench.ask(delay_id=id_, delay_to="orders", delay_at=str(NOW), delay_dedupe=window)

    assert list(bench.pending()) == ["a"]
    assert [event.get("reason") for event in bench.events if event["event"] == "refused"] == ["not-allowed"] * 2
    assert _error(bench).startswith(b"delay-dedupe is 999999999999999 ms, but the maximum is 2592000000 ms.")
    bench.close()


def test_windows_from_the_settings_are_allowed(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", DELAY_POLICIES="delay-requests=dedupe P90D")
    bench.ask(delay_id="a", delay_to="orders", delay_at=str(NOW))
    bench.run(bench.delivered(bench.claim("a")))

    assert _expires_ms(bench) == NOW + 90 * DAY_MS
    bench.close()


def test_a_window_that_was_accepted_before_is_cut(tmp_path: Path) -> None:
    """By a worker of an earlier version, or under another setting."""
    bench = Workbench(tmp_path / "x.db", DELAY_POLICIES="delay-requests=dedupe P400D")
    bench.ask(delay_id="a", delay_to="orders", delay_at=str(NOW), delay_dedupe="P400D")
    bench.close()
    bench = Workbench(tmp_path / "x.db")
    bench.run(bench.delivered(bench.claim("a")))

    assert _expires_ms(bench) == NOW + 30 * DAY_MS
    bench.close()


def test_no_more_ids_are_remembered_than_the_quota_says(limited: Limited) -> None:
    """Each delivery leaves two: its dedupe window, and for ten minutes the order that it has ended."""
    for number in range(2):
        assert limited.outcomes_of(limited.asked(f"m{number}", delay_dedupe="P1D")) == ["accepted"]
        _deliver(limited, f"m{number}")
    limited.seconds += 1

    assert _shares(limited)["orders"].remembered == 4
    assert limited.outcomes_of(limited.asked("m3", delay_dedupe="P1D")) == ["quota"]
    assert limited.outcomes_of(limited.asked("m4")) == ["accepted"]
    assert b"without delay-dedupe, or raise the quota (remembered)" in _error(limited)


def test_commands_for_ids_that_are_not_there_count_too(limited: Limited) -> None:
    for number in range(5):
        limited.run(limited.orders.record(limited.now_ms, delay_op="cancel", delay_id=f"m{number}"))
        limited.seconds += 1

    assert [event.get("reason") or event["event"] for event in limited.events] == ["unknown"] * 3 + ["quota"] * 2
    forgotten = Changes()
    forgotten.commands.update({f"orders/m{number}": None for number in range(3)})
    limited.store.apply(forgotten, limited.store.offset, limited.store.writer, limited.now_ms)
    limited.seconds += 1
    assert "orders" not in _shares(limited)
    assert limited.outcomes_of(limited.asked("m5", delay_dedupe="P1D")) == ["accepted"]


def test_ids_are_counted_again_where_another_version_has_not_counted_them(limited: Limited) -> None:
    limited.outcomes_of(limited.asked("m", delay_dedupe="P1D"))
    _deliver(limited, "m")
    before = _shares(limited)
    batch = rocksdict.WriteBatch(raw_mode=True)
    batch.put(b"mshares", b"")
    limited.store._db.write(batch)
    limited.close()
    limited.open()

    assert before["orders"].remembered == 2
    assert _shares(limited) == before


def test_a_namespace_with_a_limit_of_messages_has_one_of_ids() -> None:
    env = {"DELAY_NAMESPACES": "a,b,c"}
    quotas = Settings.from_env({**env, "DELAY_QUOTAS": "a=messages:10,b=messages:5000000,c=rate:5/s"}).topics.quotas

    assert [quotas[name].remembered_limit for name in "abc"] == [1_000_000, 5_000_000_000, None]


def test_the_rest_of_the_world_is_not_bound(limited: Limited) -> None:
    for number in range(9):
        limited.ask(delay_id=f"m{number}", delay_to="orders", delay_at=str(NOW), delay_dedupe="P1D")

    assert not [event for event in limited.events if event["event"] == "refused"]
    for _ in range(3):
        limited.quotas.remember("orders/x")
    with pytest.raises(Refusal, match="the quota of 3 remembered ids of the namespace orders is used up"):
        limited.quotas.remember("orders/x")
