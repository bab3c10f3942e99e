"""A partition's next life finds sends in flight and unfinished steps of the last one."""

import asyncio
from pathlib import Path

from app.engine.steps.outcomes import Unsent
from app.kafka.errors import Recalled
from tables import keys
from tests.app.stage import Stage


async def test_a_send_that_an_earlier_life_began_may_end_in_this_one(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        await stage.partition.pause(0)
        stage.begin(0)
        stage.sender.accept()
        await stage.settle()
        stage.partition.tell(Unsent(b"nobody knows this row"))
        stage.fire()
        stage.sender.accept()
        await stage.settle()

        assert stage.stores[0].counts.total == 0
        assert {delivery.id for delivery in stage.sender.taken} == {"a"}


async def test_a_pause_lets_messages_in_flight_finish(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        stage.sender.accept()
        await stage.partition.pause(5)

        assert stage.told() == ["delivered a"]
        assert stage.partition.offer([]).cancelled()
        assert not stage.partition.working


async def test_a_row_that_a_step_is_changing_is_not_fired_until_it_is_known_how(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", 1)
        await stage.schedule("b")
        stage.journal.open.clear()
        before = stage.journal.asked
        cancel = stage.logs[0].record(stage.clock.wall, delay_op="cancel", delay_id="a")
        done = stage.partition.offer([cancel])
        await stage.until(lambda: stage.journal.asked > before)

        assert stage.fire() == ["b"]
        stage.journal.open.set()
        await done
        assert stage.fire() == ["b"]
        assert stage.told() == ["cancelled a"]


async def test_a_row_that_an_earlier_life_was_changing_is_fired_in_the_next(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.journal.open.clear()
        before = stage.journal.asked
        stage.partition.offer([stage.logs[0].record(stage.clock.wall, delay_op="cancel", delay_id="a")])
        await stage.until(lambda: stage.journal.asked > before)
        await stage.partition.pause(0)
        stage.journal.open.set()
        stage.begin(0)

        assert stage.fire() == ["a"]


async def test_when_all_rows_are_settled_reads_begin_after_the_removed_ones(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", 5)
        stage.fire()
        stage.sender.accept()
        await stage.settle()
        stage.fire()

        assert stage.stores[0]._low > keys.row_key(stage.clock.wall - 5, 0, 0)
        await stage.schedule("b", 7)
        assert stage.fire() == ["b"]


async def test_no_two_lives_have_a_number_whatever_partition_they_are_of(tmp_path: Path) -> None:
    async with Stage(tmp_path, 2) as stage:
        lives = [partition.life for partition in stage.partitions.values()]
        await stage.partition.pause(0)
        stage.begin(0)

        assert len({*lives, stage.partition.life}) == 3


async def test_a_life_begins_with_no_records_of_the_one_before(tmp_path: Path) -> None:
    """The records of an unfinished step return to the log: a part of the step would stand for all earlier records."""
    async with Stage(tmp_path) as stage:
        log, now = stage.logs[0], stage.clock.wall
        records = [log.record(now, delay_id=f"{n}", delay_to="orders", delay_at=f"{n}") for n in range(20)]
        for record in records:
            record.value = bytes(100_000)
        learning, learned = asyncio.Event(), asyncio.Event()

        async def learn(_: object) -> None:
            learning.set()
            await learned.wait()

        partitions, stage.destinations.topics["orders"] = stage.destinations.topics["orders"], 0
        stage.destinations.learn = learn  # type: ignore[method-assign, assignment]
        stage.journal.open.clear()
        before = stage.journal.asked
        offered = stage.partition.offer(records)
        await learning.wait()
        pausing = asyncio.create_task(stage.partition.pause(0.05))
        await asyncio.sleep(0)
        stage.destinations.topics["orders"] = partitions
        learned.set()
        await pausing
        assert stage.journal.asked > before, "the step with some of the records was being committed"
        assert offered.cancelled()
        stage.journal.open.set()
        stage.begin(0)
        await stage.take(0, records)

        assert stage.stores[0].counts.total == len(records)


async def test_messages_gathered_for_an_ended_life_are_not_sent(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        await stage.schedule("b")
        assert stage.fire() == ["a"]
        await stage.partition.pause(0)
        stage.sender.accept()
        await asyncio.sleep(0)
        assert stage.sender.ids() == []
        stage.begin(0)

        assert stage.fire() == ["a", "b"]


async def test_deliveries_of_an_ended_life_are_not_retried(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        stage.dispatcher.let_go()
        assert stage.sender.let_gone == []
        await stage.partition.pause(0)
        stage.dispatcher.let_go()
        stage.sender.refuse(Recalled("orders", 0))
        await asyncio.sleep(0)
        stage.begin(0)

        assert [topic for topic, _ in stage.sender.let_gone] == ["orders"]
        assert stage.fire() == ["a"]
