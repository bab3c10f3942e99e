"""Exactly once: how many deliveries a step takes, so that what ends their rows has room in its batch."""

import asyncio
from typing import Any, cast

import msgspec

from app.engine.deliver.transactional_dispatcher import TransactionalDeliveryBatch
from app.engine.partition.step_deliveries import StepDeliveries
from app.engine.steps.step import STEP_BYTES, Step
from app.kafka.produce.batch import TARGET_BYTES
from tables.entry import encode
from tests.tables.rows import NOW, entry, key


def waiting(count: int, following: int = 0) -> StepDeliveries:
    """Return `count` waiting deliveries of ten rows each, with `following` bytes behind each."""
    deliveries, nobody = StepDeliveries(), cast("Any", None)
    for number in range(count):
        delivery = TransactionalDeliveryBatch((None, "orders", 0), TARGET_BYTES, nobody)
        for place in range(10):
            assert delivery.append((nobody, key(NOW, 10 * number + place)), entry(), NOW)
        delivery.following = following
        deliveries.add(delivery)
    return deliveries


def full_step(size: int) -> Step:
    """Return a step with this many bytes of changes."""
    step = Step(NOW)
    what = msgspec.structs.replace(entry(), value=bytes(size))
    step.put(key(NOW, 99), what, encode(what))
    return step


async def test_removals_are_small_and_all_have_room() -> None:
    step, deliveries = Step(NOW), waiting(40)
    deliveries.put_into(step, NOW)

    assert len(step.deliveries) == 40
    assert not deliveries


async def test_next_occurrences_take_the_room_that_they_have() -> None:
    deliveries, taken = waiting(40, 100_000), []
    while deliveries:
        step = Step(NOW)
        deliveries.put_into(step, NOW)
        taken.append(len(step.deliveries))

    assert taken == [6, 6, 6, 6, 6, 6, 4]


async def test_a_step_that_is_full_leaves_them_to_the_next_which_is_theirs() -> None:
    deliveries = waiting(1)
    step = full_step(STEP_BYTES)
    deliveries.put_into(step, NOW)
    assert not step.deliveries
    assert deliveries.crowded_out
    step = Step(NOW)
    deliveries.put_into(step, NOW)

    assert len(step.deliveries) == 1
    assert not deliveries.crowded_out


async def test_deliveries_chosen_long_ago_that_still_wait_are_outdated() -> None:
    deliveries, now_s = waiting(2), asyncio.get_running_loop().time()

    assert not deliveries.outdated(now_s + 1)
    assert deliveries.outdated(now_s + 5)
    assert not waiting(0).outdated(now_s + 5)
