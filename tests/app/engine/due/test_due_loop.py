"""The due loop: the time of its next cycle, its range, and the rows that it skips."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.engine.due.due_loop import DueLoop
from app.engine.due.input_liveness import InputLiveness
from app.engine.partition.partition import Partition
from tests.app.stage import Stage


async def test_it_sleeps_until_the_next_message_is_due(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", -300)

        assert stage.due.cycle(stage.clock.now_ms()) == pytest.approx(0.3)
        stage.clock.pass_by(299)
        assert stage.fire() == []
        stage.clock.pass_by(1)
        assert stage.fire() == ["a"]


async def test_it_looks_again_after_half_a_second_whatever_is_due_later(tmp_path: Path) -> None:
    """A wall clock that jumps does not wake a monotonic timer."""
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", -60_000)

        assert stage.due.cycle(stage.clock.now_ms()) == pytest.approx(0.5)


async def test_it_fires_no_more_rows_of_a_partition_than_a_batch_at_a_time(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, 2) as stage:
        for number in range(5):
            await stage.schedule(f"{number}", 10 - number)

        assert stage.fire() == ["0", "1"]
        assert stage.due.cycle(stage.clock.now_ms()) == 0, "there is more that is due"


async def test_no_message_is_sent_while_the_clock_may_be_fast(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", -3_000)
        stage.clock.pass_by(0, jump=5_000)
        loop = asyncio.create_task(stage.due.run())
        await asyncio.sleep(0.05)
        assert stage.sender.ids() == []

        stage.due.top_up(stage.partition)
        loop.cancel()
        await asyncio.wait([loop])
        assert stage.sender.ids() == []


async def test_of_large_rows_there_are_fewer_on_their_way(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, 10) as stage:
        for number in range(60):
            await stage.schedule(f"{number}", 100 - number, large=bytes(900_000))
        while stage.due.cycle(stage.clock.now_ms()) == 0:
            pass

        assert 15 <= len(stage.partition.claims) < 30


async def test_the_loop_reads_the_current_partitions_of_its_owner(tmp_path: Path) -> None:
    async with Stage(tmp_path, 2) as stage:
        for number in range(2):  # each with the id of its place
            await stage.ask(number, delay_to="orders", delay_at=str(stage.clock.wall - 5))
        given_away = stage.partitions.pop(0)

        assert stage.fire() == ["delay-requests-1-0"]
        stage.sender.accept()
        await stage.settle()
        stage.partitions[0] = given_away
        assert stage.fire() == ["delay-requests-0-0"]
        stage.sender.accept()


async def test_all_partitions_are_examined_before_any_message_is_sent(tmp_path: Path) -> None:
    class Blind(InputLiveness):
        def __init__(self) -> None:
            self.looks = 0

        def look(self, partitions: object, now_s: float) -> None:  # noqa: ARG002 - the looks are counted
            self.looks += 1
            stage.partition.catch_up()

        def behind_s(self, _: Partition) -> float:
            return 0.0

        def apart_s(self, _: Partition) -> Mapping[str, float]:
            return {}

    async with Stage(tmp_path) as stage:
        await stage.schedule("a", 5)
        blind = Blind()
        loop = DueLoop(stage.settings, stage.clock, stage.dispatcher, stage.partitions, blind)
        loop.top_up(stage.partition)

        assert blind.looks == 1
        assert stage.sender.ids() == []


async def test_messages_due_before_a_partition_fell_behind_are_sent_and_the_rest_waits(tmp_path: Path) -> None:
    class Behind(InputLiveness):
        def __init__(self) -> None:
            self.seconds = 2.0

        def look(self, partitions: object, now_s: float) -> None:
            """Return no records to read."""

        def behind_s(self, _: Partition) -> float:
            return self.seconds

        def apart_s(self, _: Partition) -> Mapping[str, float]:
            return {}

    async with Stage(tmp_path) as stage:
        await stage.schedule("a", 2_500)
        await stage.schedule("b", 1_500)
        behind = Behind()
        stage.due.unread.liveness = behind
        assert stage.fire() == ["a"]
        assert 0 < stage.due.cycle(stage.clock.now_ms()) < 1
        stage.sender.accept()
        await stage.settle()

        behind.seconds = 0.0
        assert stage.fire() == ["b"]
