"""A worker that ends while the group rebalances reads no further records."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from app.engine.ownership.assignment import Ownership, Stages

if TYPE_CHECKING:
    from app.kafka import Cluster
    from tables import DelayTable


def ownership(taken: list[int], failures: list[BaseException]) -> Ownership:
    """Return an ownership that notes which partitions it makes; to take one in fails, as without connections."""
    none: Any = SimpleNamespace(begin=lambda: None, close=lambda: None)
    stages = SimpleNamespace(catch_up=none, arrival_search=none)

    def new_partition(number: int, _: object) -> Any:
        taken.append(number)
        return SimpleNamespace()

    return Ownership(
        {},
        cast("DelayTable", SimpleNamespace(stores={})),
        cast("Cluster", None),
        cast("Stages", stages),
        new_partition,
        lambda: None,
        failures.append,
    )


async def test_partitions_assigned_after_the_end_are_not_accepted() -> None:
    taken: list[int] = []
    failures: list[BaseException] = []
    owned = ownership(taken, failures)
    await owned.revoke()  # a rebalance has begun
    await owned.close()
    await owned.assign([0, 1], 7)  # and ends after that
    await asyncio.sleep(0)

    assert (taken, failures, owned.partitions, owned.generation) == ([], [], {}, -1)
