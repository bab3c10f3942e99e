"""What a partition's lives leave to one another: sends on their way, steps half done."""

from pathlib import Path

from app.steps.outcomes import Unsent
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


async def test_pausing_lets_what_is_in_flight_end(tmp_path: Path) -> None:
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


async def test_when_all_is_dealt_with_reads_begin_past_what_is_gone(tmp_path: Path) -> None:
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
