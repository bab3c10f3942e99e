"""Exactly once: which deliveries leave a transaction that a destination has not taken."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from aiokafka.record.memory_records import MemoryRecords

from app.engine.commit.transactional_journal import settle
from app.engine.deliver.destination_cluster import DestinationCluster
from app.engine.deliver.transactional_dispatcher import TransactionalDispatcher
from app.engine.partition.partition import Partition, State
from app.engine.steps.outcomes import Delivered
from app.engine.steps.step import Step
from app.kafka import Ack
from app.kafka.errors import SendError, TooLarge
from app.kafka.transactions.transaction import Untaken
from tables import Entry
from tests.app.stage import Applied, Stage
from tests.harness.simulated_time import in_simulated_time

if TYPE_CHECKING:
    from app.engine.due.input_liveness import InputLiveness
    from app.kafka import Batch, Cluster, Sender

_LARGEST = 400


class Transacted(Applied):
    """A journal whose transactions accept no batch of a partition after a batch that is too large."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        #: The delivered messages, the number of rows in each batch, and the number of refusals.
        self.ids: list[str] = []
        self.sizes: list[int] = []
        self.refusals = 0

    async def deliver(self, partition: int, step: Step) -> list[Delivered]:  # noqa: ARG002 - the journal's signature
        acks, refusing = list[Ack | SendError | None](), set[int]()
        for delivery in step.deliveries:
            raw = _bytes(delivery.batch)
            if delivery.route[2] in refusing:
                acks.append(None)
            elif len(raw) > _LARGEST:
                refusing.add(delivery.route[2])
                acks.append(TooLarge("orders"))
                self.refusals += 1
            else:
                acks.append(Ack(0, -1))
                self.sizes.append(delivery.batch.count)
                self.ids += [dict(r.headers)["delay-id"].decode() for r in MemoryRecords(raw).next_batch()]
        return settle(step, acks)


def _bytes(batch: "Batch") -> bytes:
    batch.renumber()
    return batch.build(1, 0, 0)


class Refused(Transacted):
    """A journal whose first transaction with deliveries is not taken, once the test opens it."""

    refused = False

    async def deliver(self, partition: int, step: Step) -> list[Delivered]:
        if step.deliveries and not self.refused:
            await self.open.wait()
            self.refused = True
            delivery = step.deliveries[0]
            raise Untaken("orders", delivery.route[2], delivery.batch, "no leader", None)
        return await super().deliver(partition, step)


class Spoiled(Transacted):
    """A journal with one transaction that is aborted, because a destination refuses a batch that it may have taken.

    It is the first one with several batches. The destination gets no more messages until it has accepted the end.
    """

    spoiled = False

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.free: Callable[[], None] = lambda: None

    async def deliver(self, partition: int, step: Step) -> list[Delivered]:
        if len(step.deliveries) > 1 and not self.spoiled:
            self.spoiled = True
            dispatcher = self._stage.dispatcher
            assert isinstance(dispatcher, TransactionalDispatcher)
            self.free = dispatcher.stuck(("orders", 1))
            _, second, *_ = step.deliveries
            _bytes(second.batch)
            raise Untaken("orders", 1, second.batch, "too large", TooLarge("orders"))
        return await super().deliver(partition, step)


def exact(stage: Stage, journal: Transacted) -> None:
    """Have a stage deliver exactly once."""
    target = DestinationCluster(cast("Cluster", stage.destinations), cast("Sender", stage.sender))
    stage.dispatcher = stage.due._dispatcher = stage.due.rows._dispatcher = TransactionalDispatcher(
        stage.settings.destinations, stage.clock, {None: target}
    )
    stage.journal = stage.partition.writer.journal = journal  # type: ignore[assignment]


async def together(stage: Stage, ids: list[str]) -> None:
    """Have messages for one destination partition become due at once, in this order."""
    for number, id_ in enumerate(ids):
        await stage.schedule(id_, -1_000 - number, delay_to_partition="1")
    stage.clock.wall += 10_000
    stage.fire()


async def test_only_the_message_that_is_too_large_is_given_up_and_its_neighbours_are_sent(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        journal = Transacted(stage)
        exact(stage, journal)
        for id_ in ("a", "b", "c", "d"):
            await stage.schedule(id_, delay_to_partition="1", **({"large": "x" * _LARGEST} if id_ == "c" else {}))

        stage.fire()
        await stage.until(lambda: len(stage.told()) == 4)

        assert sorted(stage.told()) == ["delivered a", "delivered b", "delivered d", "rejected c"]
        assert journal.ids == ["a", "b", "d"]


async def test_all_that_is_not_too_large_comes_in_order_and_is_refused_only_until_its_size_is_known(
    tmp_path: Path,
) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        journal = Transacted(stage)
        exact(stage, journal)
        ids = [f"{number:02}" for number in range(40)]
        await together(stage, ids)

        await stage.until(lambda: len(stage.told()) == 40)
        assert journal.ids == ids
        refusals = journal.refusals
        assert 0 < refusals < 10
        later = [f"next {id_}" for id_ in ids]
        await together(stage, later)
        await stage.until(lambda: len(stage.told()) == 80)

        assert journal.ids == [*ids, *later]
        assert journal.refusals == refusals


async def test_smaller_batches_do_not_overtake_messages_aborted_with_them(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        journal = Spoiled(stage)
        exact(stage, journal)
        ids = [f"{number:02}" for number in range(8)]
        await together(stage, ids)
        await stage.until(lambda: journal.spoiled)
        await stage.settle()
        journal.free()
        while len(journal.ids) < 8:
            stage.fire()
            await stage.settle()

        assert journal.ids == ids


@in_simulated_time
async def test_later_messages_do_not_overtake_those_that_a_destination_has_not_accepted(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, 1, DELAY_GUARANTEE="exactly_once", DELAY_MAX_IN_FLIGHT="4") as stage:
        journal = Refused(stage)
        exact(stage, journal)
        for late, id_ in ((-10, "b"), (2, "a")):
            await stage.schedule(id_, late, delay_to_partition="1")
        journal.open.clear()
        stage.fire()
        await stage.until(lambda: not stage.partition.deliveries)
        stage.clock.wall += 10
        stage.fire()  # while the first is on its way
        assert len(stage.partition.deliveries._queue) == 1

        journal.open.set()
        await stage.until(lambda: journal.refused and not stage.partition.claims)
        await stage.until(lambda: not stage.dispatcher.blocked((None, "orders", 1)))
        for taken in (1, 2):
            stage.fire()
            await stage.until(lambda: len(journal.ids) == taken)  # noqa: B023 - awaited here

        assert journal.ids == ["a", "b"]


@in_simulated_time
async def test_a_destination_that_has_failed_is_tried_with_one_message(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        journal = Refused(stage)
        exact(stage, journal)
        for late, id_ in ((3, "a"), (2, "b"), (1, "c")):
            await stage.schedule(id_, late, delay_to_partition="1")
        stage.fire()
        await stage.until(lambda: journal.refused and not stage.partition.claims)
        assert stage.dispatcher.trouble((None, "orders", 1)).startswith("orders-1: ")
        await stage.until(lambda: not stage.dispatcher.blocked((None, "orders", 1)))

        stage.fire()
        assert len(stage.partition.claims) == 1  # else all partitions' transactions would be held up at once again
        await stage.until(lambda: len(journal.ids) == 1)
        stage.fire()
        await stage.until(lambda: len(journal.ids) == 3)

        assert journal.ids == ["a", "b", "c"]


@in_simulated_time
async def test_a_destination_that_has_failed_and_refuses_a_message_is_tried_no_longer(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        journal = Refused(stage)
        exact(stage, journal)
        for late, id_ in ((2, "a"), (1, "b")):
            await stage.schedule(id_, late, delay_to_partition="1", large="x" * _LARGEST)
        stage.fire()
        route = (None, "orders", 1)
        await stage.until(lambda: journal.refused and not stage.partition.claims)
        await stage.until(lambda: not stage.dispatcher.blocked(route))

        stage.fire()
        await stage.until(lambda: "rejected a" in stage.told())
        assert not stage.dispatcher.blocked(route)
        stage.fire()  # unless a step has taken "b" along
        await stage.until(lambda: stage.told() == ["rejected a", "rejected b"])


async def test_messages_without_a_key_go_round_a_partition_that_has_failed(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        exact(stage, Transacted(stage))
        assert isinstance(stage.dispatcher, TransactionalDispatcher)
        free = stage.dispatcher._failures.hold((None, "orders", 1))
        entry = Entry("a", "orders", None, b"", [], "delay-requests-0-0")

        assert {stage.dispatcher.route(entry)[2] for _ in range(100)} == {0, 2, 3}
        free()


async def test_messages_due_during_a_transaction_travel_in_one_batch_of_the_next(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        journal = Transacted(stage)
        exact(stage, journal)
        for late, id_ in ((3, "a"), (-10, "b"), (-20, "c"), (-30, "d")):
            await stage.schedule(id_, late, delay_to_partition="1")
        journal.open.clear()
        stage.fire()
        await stage.until(lambda: journal.asked)
        for _ in range(2):
            stage.clock.wall += 10
            stage.fire()

        assert [delivery.batch.count for delivery in stage.partition.deliveries._queue] == [2]
        stage.clock.wall += 10  # due when the step begins, and not fired by a cycle
        journal.open.set()
        await stage.until(lambda: len(stage.told()) == 4)

        assert journal.sizes == [1, 3]
        assert journal.ids == ["a", "b", "c", "d"]
        assert [event["late"] for event in stage.events if event["event"] == "delivered"] == [3, 20, 10, 0]


async def test_deliveries_that_a_step_takes_along_get_no_more_messages(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        journal = Transacted(stage)
        exact(stage, journal)
        for late, id_ in ((-5, "a"), (-10, "b")):
            await stage.schedule(id_, late, delay_to_partition="1")
        journal.open.clear()
        journal.asked = 0
        stage.clock.wall += 5
        stage.fire()
        await stage.until(lambda: journal.asked)
        stage.clock.wall += 5
        stage.fire()
        await stage.partition.pause(0)  # its first life ends with one row on its way and another one waiting
        assert journal.ids == ["a"]
        stage.begin(0)

        journal.open.set()
        stage.fire()
        await stage.until(lambda: len(stage.told()) == 2)
        assert journal.ids[1:] == ["a", "b"]


class OutOfSight:
    """Inputs whose state is unknown for every partition."""

    def look(self, partitions: Iterable[Partition], _: float) -> None:
        for partition in partitions:
            partition._state = State.CATCHING_UP

    def behind_s(self, _: Partition) -> float:
        return 0.0

    def apart_s(self, _: Partition) -> dict[str, float]:
        return {}


@pytest.mark.parametrize("hindrance", ["suspect", "paused", "out of sight"])
async def test_a_step_takes_no_deliveries_along_while_delivery_is_forbidden(tmp_path: Path, hindrance: str) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        exact(stage, Transacted(stage))
        if hindrance == "suspect":
            stage.clock.suspect = True
        elif hindrance == "out of sight":
            stage.due.unread.liveness = cast("InputLiveness", OutOfSight())
        else:
            stage.partition._state = State.CATCHING_UP
        await stage.schedule("a", 3)
        await stage.schedule("b", 3)
        assert not stage.told()

        stage.clock.suspect, stage.due.unread.liveness = False, None
        stage.partition._state = State.LIVE
        await stage.schedule("c", 3)  # whatever makes a step
        await stage.until(lambda: len(stage.told()) == 3)


async def test_deliveries_that_wait_for_a_step_are_taken_back_when_their_destination_is_paused(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, 1, DELAY_GUARANTEE="exactly_once", DELAY_MAX_IN_FLIGHT="4") as stage:
        journal = Refused(stage)
        exact(stage, journal)
        journal.refused = True  # taken, once the test opens it
        for late, id_ in ((-10, "b"), (2, "a")):
            await stage.schedule(id_, late, delay_to_partition="1")
        journal.open.clear()
        stage.fire()
        await stage.until(lambda: not stage.partition.deliveries)
        stage.clock.pass_by(10)
        stage.fire()  # while the first is on its way
        assert len(stage.partition.deliveries._queue) == 1
        stage.control("orders", paused=True)
        assert not stage.partition.deliveries
        journal.open.set()
        await stage.until(lambda: stage.told() == ["delivered a"])
        stage.fire()
        await stage.settle()
        assert journal.ids == ["a"]
        stage.control("orders")
        stage.fire()
        await stage.until(lambda: journal.ids == ["a", "b"])
