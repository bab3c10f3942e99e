"""Exactly once: which deliveries leave a transaction that a destination has not taken."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from aiokafka.record.memory_records import MemoryRecords

from app.deliver import Target
from app.exact import ExactCourier
from app.kafka.errors import TooLarge
from app.kafka.transaction import Untaken
from app.outcome import Delivered
from app.step import Step
from tests.app.stage import Applied, Stage

if TYPE_CHECKING:
    from app.kafka import Batch, Cluster, Sender

_LARGEST = 400


class Transacted(Applied):
    """A journal whose transactions end at the first batch that is too large."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.ids: list[str] = []

    async def commit(self, partition: int, step: Step) -> None:
        for load in step.loads:
            if len(_bytes(load.batch)) > _LARGEST:
                raise Untaken("orders", load.way[2], load.batch, "too large", TooLarge("orders"))
        for load in step.loads:
            load.taken()
            self.ids += [dict(r.headers)["delay-id"].decode() for r in MemoryRecords(_bytes(load.batch)).next_batch()]
            step.settle(step, Delivered([(key, 0) for _, key in load.rows], "orders", load.way[2], load.sent_ms))
        await super().commit(partition, step)


def _bytes(batch: "Batch") -> bytes:
    batch.renumber()
    return batch.build(1, 0, 0)


class Refused(Transacted):
    """A journal whose first transaction with deliveries is not taken, once the test opens it."""

    refused = False

    async def commit(self, partition: int, step: Step) -> None:
        if step.loads and not self.refused:
            await self.open.wait()
            self.refused = True
            load = step.loads[0]
            raise Untaken("orders", load.way[2], load.batch, "no leader", None)
        await super().commit(partition, step)


def exact(stage: Stage, journal: Transacted) -> None:
    """Have a stage deliver exactly once."""
    target = Target(cast("Cluster", stage.destinations), cast("Sender", stage.sender))
    stage.courier = stage.due._courier = ExactCourier(stage.settings, stage.clock, {None: target})
    stage.journal = stage.partition._journal = journal  # type: ignore[assignment]


async def test_only_the_message_that_is_too_large_is_given_up_whatever_waits_beside_it(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        journal = Transacted(stage)
        exact(stage, journal)
        for id_ in ("a", "b", "c", "d"):
            await stage.schedule(id_, delay_to_partition="1", **({"large": "x" * _LARGEST} if id_ == "c" else {}))

        stage.fire()
        await stage.until(lambda: len(stage.told()) == 4)

        assert sorted(stage.told()) == ["delivered a", "delivered b", "delivered d", "rejected c"]
        assert journal.ids == ["a", "b", "d"]


async def test_what_is_due_later_does_not_overtake_what_a_destination_has_not_taken(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_FIRE_BATCH="1") as stage:
        journal = Refused(stage)
        exact(stage, journal)
        for late, id_ in ((2, "a"), (1, "b")):
            await stage.schedule(id_, late, delay_to_partition="1")
        journal.open.clear()
        stage.fire()
        await stage.until(lambda: not stage.partition._loads)
        stage.fire()  # while the first is on its way

        journal.open.set()
        await stage.until(lambda: journal.refused and not stage.partition.claims)
        await stage.until(lambda: not stage.courier.blocked((None, "orders", 1)))
        for taken in (1, 2):
            stage.fire()
            await stage.until(lambda: len(journal.ids) == taken)  # noqa: B023 - awaited here

        assert journal.ids == ["a", "b"]


async def test_a_destination_that_has_failed_is_tried_with_one_message(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        journal = Refused(stage)
        exact(stage, journal)
        for late, id_ in ((3, "a"), (2, "b"), (1, "c")):
            await stage.schedule(id_, late, delay_to_partition="1")
        stage.fire()
        await stage.until(lambda: journal.refused and not stage.partition.claims)
        await stage.until(lambda: not stage.courier.blocked((None, "orders", 1)))

        stage.fire()
        assert len(stage.partition.claims) == 1  # else all partitions' transactions would be held up at once again
        await stage.until(lambda: len(journal.ids) == 1)
        stage.fire()
        await stage.until(lambda: len(journal.ids) == 3)

        assert journal.ids == ["a", "b", "c"]
