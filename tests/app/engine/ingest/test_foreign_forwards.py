"""Forwards that no partition wrote are skipped or become dead letters, and never stop a partition."""

from pathlib import Path

import pytest

from punctual.contract import native, request
from punctual.contract.recurrence import Recurrence
from tests.app.workbench import Workbench
from tests.harness.fuzz import Pair, mangled, seeds
from tests.punctual.contract.records import NOW, Log

SOON = str(NOW + 60_000)


def genuine() -> list[Pair]:
    """Return forwards as partitions make them: of requests and of commands."""
    log = Log("delay-requests", 2)
    asked = [
        log.record(NOW, delay_id="a", delay_to="orders", delay_at=SOON, delay_dedupe="5000", user="1"),
        log.record(NOW, delay_id="b", delay_to="orders", delay_at=SOON, delay_to_partition="1", delay_max_late="5"),
        log.record(NOW, delay_id="a", delay_op="cancel"),
        log.record(NOW, delay_id="a", delay_op="reschedule", delay_at=SOON, delay_if_due=SOON),
    ]
    return [(b"a", request.encode(native.decode(record))) for record in asked]


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "delay-requests"},
        {"source": "delay-requests-x-1"},
        {"source": "delay-requests-2-x"},
        {"source": "delay-requests-2-" + "9" * 30},
        {"source": "delay-requests-2--1"},
        {"due_ms": -1},
        {"due_ms": 1 << 60},
        {"stamp_ms": -5},
        {"stamp_ms": 1 << 63},
        {"id": ""},
        {"id": "x" * 100_000},
        {"to": ""},
        {"to": "x" * 40_000},
        {"partition": -7},
        {"partition": 1 << 40},
        {"dedupe_ms": 1 << 63},
        {"cluster": "nowhere"},
        {"recurrence": Recurrence(None, "every day")},
        {"recurrence": Recurrence(None, "0 0 * * *", zone="Nowhere/Else")},
        {"recurrence": Recurrence(5, None)},
        {"recurrence": Recurrence(5_000, "0 0 * * *")},
        {"recurrence": Recurrence(None, None)},
        {"recurrence": Recurrence(5_000, None, -7)},
        {"recurrence": Recurrence(5_000, None, count=0)},
        {"recurrence": Recurrence(1 << 62, None, 1 << 62)},
    ],
)
def test_a_forward_with_content_that_no_partition_writes_is_harmless(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    bench = Workbench(tmp_path / "x.db", number=3)
    _, raw = genuine()[0]
    asked = request.decode(raw or b"")
    for name, value in changes.items():
        setattr(asked, name, value)
    take(bench, (b"a", request.encode(asked)))
    goes_on(bench)


def take(bench: Workbench, pair: Pair) -> None:
    """Take a record of the forwards in."""
    record = bench.forwards.record(NOW)
    record.headers, record.key, record.value = [], *pair
    bench.run(record)


def goes_on(bench: Workbench) -> None:
    """See that a genuine forward that follows is taken in, and that the store can be closed and opened."""
    record = bench.from_elsewhere(1 << 30, NOW, delay_id="good", delay_to="orders", delay_at=SOON)
    bench.run(record)
    assert bench.store.find("good") is not None
    bench.open_again()
    bench.close()


def test_no_bytes_on_the_forwards_end_a_partition(tmp_path: Path) -> None:
    bench, pairs = Workbench(tmp_path / "x.db", number=3), genuine()
    for seed in seeds(500):
        take(bench, mangled(seed, pairs))
    goes_on(bench)
