"""Exactly once: how many deliveries a step takes, so that what ends their rows has room in its batch."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import msgspec

from app.partition.claims import Claims
from app.partition.step_builder import STEP_BYTES
from app.partition.step_deliveries import StepDeliveries
from app.steps.step import Step
from tables import Series
from tables.entry import encode
from tests.tables.rows import NOW, entry, key

if TYPE_CHECKING:
    from app.steps.delivery import Delivery

SERIES = Series(b"", NOW)


@dataclass
class Waiting:
    """A delivery of rows of so many bytes each."""

    rows: list[tuple[Any, bytes]]
    route: tuple[None, str, int] = (None, "orders", 0)
    batch: Any = None
    sent_ms: int = 0


@dataclass
class Queue:
    """Deliveries that wait, ten rows each."""

    claims: Claims = field(default_factory=Claims)

    def fill(self, count: int, value: int, series: Series | None) -> StepDeliveries:
        """Have so many deliveries wait, of rows of this size."""
        deliveries = StepDeliveries(self.claims)
        for number in range(count):
            rows = [key(NOW, 10 * number + place) for place in range(10)]
            for row in rows:
                self.claims[row] = msgspec.structs.replace(entry(), value=bytes(value), series=series)
            deliveries.add(cast("Delivery", Waiting([(None, row) for row in rows])))
        return deliveries


def full_step(size: int) -> Step:
    """Return a step with so many bytes of changes."""
    step = Step(NOW)
    what = msgspec.structs.replace(entry(), value=bytes(size))
    step.put(key(NOW, 99), what, encode(what))
    return step


def test_removals_are_small_and_all_have_room() -> None:
    step, deliveries = Step(NOW), Queue().fill(40, 10_000, None)
    deliveries.put_into(step, NOW)

    assert len(step.deliveries) == 40
    assert not deliveries


def test_next_occurrences_take_as_much_room_as_the_last_ones() -> None:
    deliveries, taken = Queue().fill(40, 10_000, SERIES), []
    while deliveries:
        step = Step(NOW)
        deliveries.put_into(step, NOW)
        taken.append(len(step.deliveries))

    assert taken == [6, 6, 6, 6, 6, 6, 4]


def test_a_step_that_is_full_leaves_them_to_the_next_which_is_theirs() -> None:
    deliveries = Queue().fill(1, 10, None)
    step = full_step(STEP_BYTES)
    deliveries.put_into(step, NOW)
    assert not step.deliveries
    assert deliveries.crowded_out
    step = Step(NOW)
    deliveries.put_into(step, NOW)

    assert len(step.deliveries) == 1
    assert not deliveries.crowded_out
