"""What partitions wait for before they fire."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from prometheus_client import REGISTRY

from app.ownership import Ownership
from app.partition import State
from app.settings import Settings

if TYPE_CHECKING:
    from app.backlog import Backlog
    from app.partition import Partition


class Behind(Ownership):
    """Of partitions that never catch up."""

    def __init__(self) -> None:
        self._settings = Settings.from_env({"DELAY_CATCH_UP": "1"})

    def _caught_up(self, *_: object) -> bool:
        return False


async def test_a_catch_up_that_is_cut_short_is_counted() -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("delay_catch_up_cut_short_total") or 0.0

    before, partition = counted(), SimpleNamespace(number=0, state=State.RESTORING)

    await Behind()._catch_up(cast("Partition", partition), {"delay-requests": 1}, cast("Backlog", None))

    assert partition.state is State.CATCHING_UP
    assert counted() == before + 1
