"""A step is one batch of the changelog, which has room for one large row: there are never two in a step."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.engine.steps.outcomes import Attempted, Rejected, Unsent
from punctual.contract.request import Reason
from tables import Changes, Command, PartitionStore
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW
from tests.tables.rows import NOW as BEGAN
from tests.tables.rows import WHOSE, apply, assert_sound, entry, key, put, rewrite

ID = "team-a/x"
URL = "https://example.com/back"
#: The maximum size of a row; a batch of the changelog has room for half as much again.
LIMIT = 20_000
MOST = LIMIT * 3 // 2


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    team = {"DELAY_NAMESPACES": "team-a", "DELAY_QUOTAS": "team-a=messages:9"}
    bench = Workbench(tmp_path / "bench.db", 0, DELAY_PARTITIONS="1", DELAY_CALLBACKS="https://example.com/*", **team)
    bench.limits.row = LIMIT
    yield bench
    bench.assert_balanced()
    bench.close()


def batch_bytes(bench: Workbench, since: int) -> int:
    """Return the size of the records that were written to the changelog since then."""
    return sum(len(key) + len(value or b"") for key, value in bench.changelog[since:])


def large(bench: Workbench, value: bytes, **said: str) -> str:
    """Schedule a message with the id ID."""
    record = bench.log.record(bench.now_ms, delay_id=ID, delay_to="orders", **{"delay_at": str(NOW), **said})
    record.value = value
    bench.run(record)
    return source(record)


def shared(bench: Workbench) -> dict[str, tuple[int, int]]:
    """Return messages and bytes of each namespace."""
    assert bench.store.shares is not None
    return {name: (share.messages, share.bytes) for name, share in bench.store.shares.known.items()}


@pytest.mark.parametrize("noted", [(), ("reschedule",)])
def test_a_message_that_replaces_one_being_sent_shares_no_step_with_it(
    bench: Workbench, noted: tuple[str, ...]
) -> None:
    old = large(bench, bytes(18_000))
    row = bench.claim(ID)
    for op in noted:
        bench.command(op, ID, delay_at=str(NOW + 5))
    since = len(bench.changelog)
    new = large(bench, bytes(17_000), delay_at=str(NOW + 9))

    assert 17_000 < batch_bytes(bench, since) < MOST
    assert shared(bench) == {"team-a": (2, 17_000 + 1)}
    bench.run(Unsent(row))
    assert bench.events[-1] == {**bench.events[-1], "event": "replaced", "source": old, "by": new}
    assert bench.pending() == {ID: NOW + 9}
    assert shared(bench) == {"team-a": (1, 17_000 + 1)}


def test_a_row_with_commands_from_before_a_restart_can_still_be_replaced(bench: Workbench) -> None:
    large(bench, bytes(18_000))
    bench.claim(ID)
    bench.command("reschedule", ID, delay_at=str(NOW + 5))
    bench.open_again()
    since = len(bench.changelog)
    large(bench, bytes(18_000), delay_at=str(NOW + 9))

    assert batch_bytes(bench, since) < MOST
    assert bench.pending() == {ID: NOW + 9}


def test_the_replacement_of_a_message_in_flight_is_reported_under_its_source(bench: Workbench) -> None:
    old = large(bench, bytes(18_000))
    row = bench.claim(ID)
    large(bench, bytes(18_000), delay_at=str(NOW + 9))
    bench.run(bench.delivered(row))

    assert bench.events[-1] == {**bench.events[-1], "event": "delivered", "id": ID, "source": old, "to": "orders"}


@pytest.mark.parametrize("whole", [False, True])
def test_a_replay_counts_the_size_of_a_replaced_row(tmp_path: Path, *, whole: bool) -> None:
    """Former workers left it whole."""
    store, changes = PartitionStore(tmp_path / "s.db", WHOSE), Changes()
    put(changes, key(BEGAN), entry("a"))
    apply(store, changes)
    replaced = entry("a", "orders", Command("replace", "delay-requests-0-1"))
    changes = Changes()
    rewrite(changes, key(BEGAN), replaced if whole else msgspec.structs.replace(replaced, key=None, value=None))
    store.replay(list(changes.records(1)), store.offset + 2, BEGAN)

    assert_sound(store)
    store.close()


@pytest.mark.parametrize("ended", [Rejected, Attempted])
def test_the_callback_of_a_large_occurrence_leaves_room_for_the_next_one(bench: Workbench, ended: type) -> None:
    large(bench, b"\xff" * 12_000, delay_every="PT1S", delay_on_failure=URL)
    row, since = bench.claim(ID), len(bench.changelog)
    bench.run(
        Rejected(row, Reason.UNKNOWN_TOPIC, "It is gone.") if ended is Rejected else Attempted(row, "410", never=True)
    )

    assert batch_bytes(bench, since) < MOST
    assert bench.pending() == {ID: NOW + 1_000}
    [callback] = [entry for _, entry in bench.store.rows() if entry.url is not None]
    assert "left out" in msgspec.json.decode(callback.value or b"")["error"]


def test_the_callback_of_a_message_that_does_not_recur_has_the_room_of_a_row(bench: Workbench) -> None:
    large(bench, b"\xff" * 12_000, delay_on_failure=URL)
    bench.run(Rejected(bench.claim(ID), Reason.UNKNOWN_TOPIC, "It is gone."))

    [callback] = [entry for _, entry in bench.store.rows() if entry.url is not None]
    assert len(callback.value or b"") > 16_000
