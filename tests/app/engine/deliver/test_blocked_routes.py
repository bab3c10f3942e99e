"""Destinations that accept no messages at the moment delay only themselves."""

import asyncio
from pathlib import Path

import pytest

from app.kafka.errors import Recalled
from tests.app.stage import Stage


async def test_rows_whose_way_is_blocked_are_held_and_come_back_in_order(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for number in range(4):
            partition = str(number % 2)
            await stage.schedule(f"{number}", 10 - number, delay_to_partition=partition)
        stage.sender.stuck["orders", 0] = 1.0

        assert stage.fire() == ["1", "3"]
        assert stage.fire() == ["1", "3"]
        stage.sender.accept()
        await stage.settle()
        stage.sender.stuck.clear()
        await stage.schedule("4", delay_to_partition="0")
        assert stage.fire() == ["0", "2", "4"]


async def test_messages_that_wait_for_their_topic_are_not_overtaken_when_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("early", 0)
        await stage.schedule("late", -5)
        answered = asyncio.Event()

        async def refresh(_: object) -> set[str]:
            await answered.wait()
            return set()

        monkeypatch.setattr(stage.destinations, "refresh", refresh)
        del stage.destinations.topics["orders"]
        assert stage.fire() == []
        stage.destinations.topics["orders"] = 1  # the request for metadata has not been answered yet
        stage.clock.wall += 5

        assert stage.fire() == ["early", "late"]
        answered.set()


async def test_blocked_rows_take_no_room_from_their_neighbours(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, 3, DELAY_MAX_IN_FLIGHT="6") as stage:
        for number in range(20):
            await stage.schedule(f"{number}", 30 - number, delay_to_partition="0")
        await stage.schedule("free", delay_to_partition="1")
        stage.sender.stuck["orders", 0] = 1.0
        for _ in range(10):
            stage.fire()

        assert stage.sender.ids() == ["free"]


async def test_blocked_rows_on_their_way_take_no_room_either(tmp_path: Path) -> None:
    for following in (0, 1):  # messages for the blocked way that wait in the table
        place = tmp_path / str(following)
        place.mkdir()
        async with Stage(place, DELAY_MAX_IN_FLIGHT="3") as stage:
            for number in range(3 + following):
                await stage.schedule(f"{number}", 30 - number, delay_to_partition="0")
            await stage.schedule("free", delay_to_partition="1")
            assert stage.fire() == ["0", "1", "2"]
            stage.sender.stuck["orders", 0] = 1.0
            stage.fire()
            stage.fire()

            assert stage.sender.ids() == ["0", "1", "2", "free"]


async def test_recalled_messages_are_held_and_sent_again_in_order(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for number in range(5):  # two fit into a batch: two batches, and one message that waits for more
            record = stage.logs[0].record(
                stage.clock.wall, delay_id=f"{number}", delay_to="orders", delay_at=f"{number}"
            )
            record.value = bytes(200_000)
            await stage.take(0, [record])
        assert stage.fire() == ["0", "1", "2", "3"]
        route = next(iter(stage.partition.in_flight.routes))
        stage.sender.stuck["orders", route[2]] = 1.0
        first = stage.sender.waiting.pop(0)
        stage.sender.refuse(Recalled("orders", route[2]))
        await stage.settle()
        assert stage.fire() == []
        stage.sender.waiting.append(first)
        stage.sender.accept()
        stage.sender.stuck.clear()
        await stage.settle()

        assert stage.fire() == ["2", "3"]
        stage.sender.accept()
        await stage.settle()
        assert stage.sender.ids() == ["4"]
        assert stage.told() == [f"delivered {number}" for number in range(4)]


async def test_messages_gathered_behind_a_failing_batch_can_still_be_cancelled(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for id_ in ("a", "b", "c"):
            await stage.schedule(id_, delay_to_partition="0")
            assert stage.fire() == ["a"]
        await stage.ask(delay_op="cancel", delay_id="b")
        stage.sender.stuck["orders", 0] = 1.0
        stage.fire()
        await stage.settle()
        assert stage.told() == ["cancelled b"]
        await stage.ask(delay_op="cancel", delay_id="a")  # it may have been stored
        stage.sender.accept()
        stage.sender.stuck.clear()
        await stage.settle()

        assert stage.fire() == ["c"]
        assert stage.told() == ["cancelled b", "delivered a", "conflict a"]


async def test_a_command_on_a_recalled_row_applies_at_once(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        await stage.ask(delay_op="cancel", delay_id="a")
        assert stage.told() == []
        stage.sender.refuse(Recalled("orders", 0))
        await stage.settle()

        assert stage.told() == ["cancelled a"]
        assert stage.stores[0].counts.total == 0


async def _take_keyless(stage: Stage, count: int) -> None:
    records = [
        stage.logs[0].record(stage.clock.wall, delay_id=f"{n}", delay_to="orders", delay_at="0") for n in range(count)
    ]
    for record in records:
        record.key = None
    await stage.take(0, records)


async def test_messages_without_a_key_go_round_a_blocked_partition(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.sender.stuck["orders", 1] = 1.0
        await _take_keyless(stage, 100)
        stage.fire()

        assert len(stage.sender.ids()) == 100
        assert {delivery.partition for batch, _ in stage.sender.waiting for delivery in batch} == {0, 2, 3}


async def test_messages_without_a_key_do_not_wait_for_the_partition_that_stays_away_longest(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.sender.stuck = {("orders", number): 1.0 for number in range(4)}
        await _take_keyless(stage, 40)
        assert stage.fire() == []
        for number in range(3):
            del stage.sender.stuck["orders", number]

        assert len(stage.fire()) == 40


async def test_messages_without_a_key_that_come_back_from_a_partition_go_round_it(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await _take_keyless(stage, 1)
        assert stage.fire() == ["0"]
        (((delivery,), _),) = stage.sender.waiting
        stage.sender.stuck["orders", delivery.partition] = 1.0
        stage.sender.refuse(Recalled("orders", delivery.partition))
        await stage.settle()

        assert stage.fire() == ["0"]


async def test_an_unknown_topic_is_looked_up_again_until_its_messages_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.deliver.missing_topics._LOOK_EVERY_S", 0.01)
    async with Stage(tmp_path, DELAY_GIVE_UP="1500") as stage:
        await stage.schedule("a")
        partitions = stage.destinations.topics["orders"]
        stage.destinations.topics["orders"] = 0  # it may be there: the worker must not know
        assert stage.fire() == []
        route = (None, "orders", -1)
        assert stage.dispatcher.blocked(route)
        await stage.until(lambda: stage.destinations.asked > 3)
        assert stage.dispatcher.blocked(route)
        await stage.until(lambda: stage.dispatcher.hopeless(route))

        stage.destinations.topics["orders"] = partitions
        await stage.until(lambda: not stage.dispatcher.missing.asking)
        assert stage.fire() == ["a"]


async def test_a_way_that_is_blocked_for_too_long_is_given_up(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GIVE_UP="PT1M") as stage:
        stage.sender.stuck = {("orders", 0): 59.0, ("orders", 1): 60.0}

        assert not stage.dispatcher.give_up((None, "orders", 0))
        assert stage.dispatcher.give_up((None, "orders", 1))
        assert stage.sender.given_up == [("orders", 1)]


async def test_no_message_is_given_up_unless_the_settings_allow_it(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.sender.stuck = {("orders", 0): 1e9}

        assert not stage.dispatcher.give_up((None, "orders", 0))
