"""The last command for an id wins, in whichever order and through whichever partitions the commands arrive."""

import random
import shutil
from pathlib import Path

import pytest

from tables import keys
from tests.app.workbench import Workbench
from tests.harness.fuzz import share
from tests.punctual.contract.records import NOW

MINUTE = 60_000
PLAIN = ("schedule", "cancel", "reschedule", "deliver-now")
SERIES = ("schedule", "series", "pause", "reschedule")
ALL = (*PLAIN, *SERIES, "resume")

Said = dict[str, str]
Row = tuple[int, bool, list[tuple[str, bytes | None]]]


def asked(rnd: random.Random, ops: tuple[str, ...]) -> list[tuple[int, Said]]:
    """Return orders for one id, with their stamps; each goes through a partition of its own."""
    found = []
    for number in range(rnd.randint(2, 7)):
        op, said = rnd.choice(ops), {"delay_id": "a"}
        if op in ("schedule", "series"):
            said |= {"delay_to": "orders", "delay_at": str(NOW + rnd.randint(1, 60) * MINUTE), "user": str(number)}
            said |= {"delay_every": "PT1M"} if op == "series" else {}
        else:
            said |= {"delay_op": op}
            said |= {"delay_at": str(NOW + rnd.randint(61, 120) * MINUTE)} if op == "reschedule" else {}
        found.append((NOW - 1_000 + 10 * number, said))
    return found


def outcome(path: Path, orders: list[tuple[int, Said]]) -> list[Row]:
    """Return the pending message after commands in this order: its due time, its recurrence, and its content."""
    bench = Workbench(path)
    for stamp, said in orders:
        bench.late(stamp % 1_000_000, stamp, **said)
        bench.assert_balanced()
    found = [
        (keys.due_of(row), entry.series is not None, entry.headers)
        for row, entry in bench.store.rows()
        if bench.store.find(entry.id) == row
    ]
    bench.close()
    shutil.rmtree(path)
    return found


@pytest.mark.parametrize(
    ("ops", "seeds"),
    [
        (PLAIN, range(share(100))),
        (SERIES, range(share(100))),
        (ALL, range(share(100))),
        # Of a pause and a reschedule, the effect that a late command lacks if only the last of them was known.
        (SERIES, (1_273, 1_703, 1_995)),
    ],
)
def test_any_order_ends_as_their_own_does(ops: tuple[str, ...], seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        rnd = random.Random(seed)  # noqa: S311
        orders = asked(rnd, ops)
        mixed = rnd.sample(orders, len(orders))

        assert outcome(tmp_path / "mixed", mixed) == outcome(tmp_path / "own", orders), (seed, mixed)
