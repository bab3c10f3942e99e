"""Exactly once: how many deliveries a step takes, so that what ends their rows has room in its batch."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import msgspec

from app.partition.claims import Claims
from app.partition.step_builder import STEP_BYTES
from app.partition.step_deliveries import StepDeliveries
from app.steps.step import Step
from tables.entry import encode
from tests.tables.rows import NOW, entry, key

if TYPE_CHECKING:
    from app.steps.delivery import Delivery


@dataclass
class Waiting:
    """A delivery of rows of so many bytes each."""

    rows: list[tuple[Any, bytes]]
    route: tuple[None, str, int] = (None, "orders", 0)
    batch: Any = None
    sent_ms: int = 0
    following: int = 0


@dataclass
class Queue:
    """Deliveries that wait, ten rows each."""

    claims: Claims = field(default_factory=Claims)

    def fill(self, count: int, following: int = 0) -> StepDeliveries:
        """Have so many deliveries wait, of each of which so many bytes follow."""
        deliveries = StepDeliveries(self.claims)
        for number in range(count):
            rows = [key(NOW, 10 * number + place) for place in range(10)]
            self.claims.update(dict.fromkeys(rows, entry()))
            deliveries.add(cast("Delivery", Waiting([(None, row) for row in rows], following=following)))
        return deliveries


def full_step(size: int) -> Step:
    """Return a step with so many bytes of changes."""
    step = Step(NOW)
    what = msgspec.structs.replace(entry(), value=bytes(size))
    step.put(key(NOW, 99), what, encode(what))
    return step


def test_removals_are_small_and_all_have_room() -> None:
    step, deliveries = Step(NOW), Queue().fill(40)
    deliveries.put_into(step, NOW)

    assert len(step.deliveries) == 40
    assert not deliveries


def test_next_occurrences_take_the_room_that_they_have() -> None:
    deliveries, taken = Queue().fill(40, 100_000), []
    while deliveries:
        step = Step(NOW)
        deliveries.put_into(step, NOW)
        taken.append(len(step.deliveries))

    assert taken == [6, 6, 6, 6, 6, 6, 4]


def test_a_step_that_is_full_leaves_them_to_the_next_which_is_theirs() -> None:
    deliveries = Queue().fill(1)
    step = full_step(STEP_BYTES)
    deliveries.put_into(step, NOW)
    assert not step.deliveries
    assert deliveries.crowded_out
    step = Step(NOW)
    deliveries.put_into(step, NOW)

    assert len(step.deliveries) == 1
    assert not deliveries.crowded_out
