"""Due messages are sent in order, once, as far as there is room, and their outcomes become events."""

import asyncio
from pathlib import Path

import pytest

from app.kafka.errors import NotAuthorised, PartitionGone, TooLarge
from punctual.contract.home import key_partition
from tests.app.stage import Stage


async def test_no_message_is_sent_before_it_is_due(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", -10)

        assert stage.fire() == []
        stage.clock.pass_by(9)
        assert stage.fire() == []
        stage.clock.pass_by(1)
        assert stage.fire() == ["a"]


async def test_a_delivery_is_the_message_with_id_due_time_and_source(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", 5)
        stage.fire()
        stage.sender.accept()
        await stage.settle()

        (delivery,) = stage.sender.taken
        assert (delivery.to, delivery.id, delivery.value) == ("orders", "a", b"v")
        assert delivery.partition == key_partition(b"k", 4)
        assert (delivery.due, delivery.at) == (stage.clock.wall - 5, stage.clock.wall)
        assert stage.told() == ["delivered a"]
        assert stage.events[-1]["delivered"] == f"orders-{delivery.partition}-0"
        assert stage.stores[0].counts.total == 0


async def test_due_messages_are_sent_in_the_order_of_due_time_then_arrival(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for id_, late in (("c", 1), ("a", 3), ("b", 2), ("d", 1), ("e", 0)):
            await stage.schedule(id_, late)

        assert stage.fire() == ["a", "b", "c", "d", "e"]


async def test_a_message_in_flight_is_not_sent_again(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        stage.partition.in_flight.cursor = b""

        assert stage.fire() == ["a"]


async def test_a_message_that_comes_late_and_is_due_earlier_is_seen(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("b", 1)
        stage.fire()
        stage.sender.accept()
        await stage.settle()
        await stage.schedule("a", 2)

        assert stage.fire() == ["a"]


async def test_messages_that_become_due_while_a_batch_is_in_flight_travel_in_the_next_one(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("first")
        stage.fire()
        for id_ in ("a", "b", "c"):
            await stage.schedule(id_)
            assert stage.fire() == ["first"]
        await stage.schedule("elsewhere", delay_to="payments")
        assert stage.fire() == ["first", "elsewhere"]

        stage.sender.accept(1)
        await stage.settle()
        assert [[delivery.id for delivery in batch] for batch, _ in stage.sender.waiting] == [
            ["elsewhere"],
            ["a", "b", "c"],
        ]


async def test_messages_that_wait_for_a_refused_batch_are_still_sent(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("refused")
        stage.fire()
        await stage.schedule("waits")
        stage.fire()
        stage.sender.refuse(NotAuthorised("orders"))
        await stage.settle()

        assert stage.sender.ids() == ["waits"]


async def test_no_more_are_in_flight_than_the_settings_say(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, 3, DELAY_MAX_IN_FLIGHT="6") as stage:
        for number in range(10):
            await stage.schedule(f"{number}", 20 - number)
        for _ in range(5):
            assert stage.fire() == ["0", "1", "2"]

        stage.sender.accept()
        await stage.settle()
        assert stage.sender.ids() == ["3", "4", "5"]
        for _ in range(2):
            stage.fire()
            stage.sender.accept()
            await stage.settle()
        stage.sender.accept()
        assert [delivery.id for delivery in stage.sender.taken] == [f"{number}" for number in range(10)]


async def test_with_a_suspect_clock_or_in_a_partition_that_is_not_live_no_message_is_sent(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.partition._state = type(stage.partition.state).CATCHING_UP

        assert stage.fire() == []


async def test_rows_of_several_partitions_travel_in_one_batch_and_each_hears_of_its_own(tmp_path: Path) -> None:
    async with Stage(tmp_path, 2) as stage:
        await stage.schedule("a", 1, 0)
        await stage.ask(1, delay_to="orders", delay_at=str(stage.clock.wall))
        stage.fire()

        assert len(stage.sender.waiting) == 1
        stage.sender.accept()
        await stage.settle()
        assert [store.counts.total for store in stage.stores.values()] == [0, 0]
        assert sorted(event["delivered"][-1] for event in stage.events if "delivered" in event) == ["0", "1"]


# failures for good --------------------------------------------------------------------------------------------------
async def test_halving_finds_the_one_row_that_is_too_large_and_keeps_the_order_of_the_rest(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for number in range(9):
            await stage.schedule(f"{number}", 20 - number)
        stage.fire()
        await stage.schedule("after")
        stage.fire()
        while stage.sender.waiting:
            batch, _ = stage.sender.waiting[0]
            if any(delivery.id == "5" for delivery in batch):
                stage.sender.refuse(TooLarge("orders"))
            else:
                stage.sender.accept(1)
            await stage.settle()

        assert [delivery.id for delivery in stage.sender.taken] == ["0", "1", "2", "3", "4", "6", "7", "8", "after"]
        assert [event["id"] for event in stage.events if event["event"] == "rejected"] == ["5"]
        assert dict(stage.dead_letters[0].headers)["delay-reason"] == b"too-large"


async def test_halving_goes_on_for_the_other_partitions_when_one_has_begun_a_new_life(tmp_path: Path) -> None:
    async with Stage(tmp_path, 2) as stage:
        await stage.schedule("a", 1)
        await stage.ask(1, delay_to="orders", delay_at=str(stage.clock.wall))
        await stage.schedule("b", 0)
        stage.fire()
        assert len(stage.sender.waiting) == 1
        await stage.partition.pause(0)
        stage.begin(0)
        stage.sender.refuse(TooLarge("orders"))
        await stage.settle()
        stage.sender.accept()
        await stage.settle()

        assert stage.stores[1].counts.total == 0
        stage.sender.taken.clear()
        for _ in range(2):
            stage.fire()
            stage.sender.accept()
            await stage.settle()
        assert [delivery.id for delivery in stage.sender.taken] == ["a", "b"]


async def test_messages_replaced_or_cancelled_before_their_batch_is_halved_are_not_sent(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for number in range(4):
            await stage.schedule(f"{number}", 20 - number)
        stage.fire()
        await stage.ask(delay_op="cancel", delay_id="1")
        await stage.schedule("2", -60_000)
        stage.sender.refuse(TooLarge("orders"))
        await stage.settle()
        stage.sender.accept()
        await stage.settle()

        assert [delivery.id for delivery in stage.sender.taken] == ["0", "3"]
        assert sorted(stage.told()) == ["cancelled 1", "delivered 0", "delivered 3", "replaced 2"]
        assert stage.stores[0].counts.total == 1


async def test_a_topic_that_refuses_large_batches_gets_smaller_ones_until_that_is_forgotten(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:

        async def batches(name: str) -> list[int]:
            for number in range(8):
                await stage.schedule(f"{name} {number}", 20 - number)
            stage.fire()
            sizes = list[int]()
            while stage.sender.waiting:
                count = len(stage.sender.waiting[0][0])
                sizes.append(count)
                if count > 2:
                    stage.sender.refuse(TooLarge("orders"))
                else:
                    stage.sender.accept(1)
                await stage.settle()
            return sizes

        assert (await batches("a"))[0] == 8
        assert max(await batches("b")) <= 2
        stage.dispatcher.limits.clear()
        assert (await batches("c"))[0] == 8
        ids = [f"{name} {number}" for name in "abc" for number in range(8)]
        assert [delivery.id for delivery in stage.sender.taken] == ids


async def test_a_forbidden_batch_is_rejected_as_a_whole(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", 1)
        await stage.schedule("b")
        stage.fire()
        stage.sender.refuse(NotAuthorised("orders"))
        await stage.settle()

        assert stage.told() == ["rejected a", "rejected b"]
        assert {event["reason"] for event in stage.events if event["event"] == "rejected"} == {"not-allowed"}


async def test_a_missing_topic_is_looked_up_before_its_messages_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.deliver.missing_topics._LOOK_EVERY_S", 0.001)
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        del stage.destinations.topics["orders"]

        assert stage.fire() == []
        assert stage.told() == []
        await stage.until(lambda: stage.dispatcher.missing.gone((None, "orders", -1)))
        stage.fire()
        await stage.settle()
        assert stage.told() == ["rejected a"]
        assert stage.events[-1]["reason"] == "unknown-topic"


async def test_a_topic_that_comes_back_in_time_gets_its_messages(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        partitions = stage.destinations.topics.pop("orders")
        stage.fire()
        stage.destinations.topics["orders"] = partitions
        await stage.until(lambda: not stage.dispatcher.missing.asking)

        assert stage.fire() == ["a"]


# messages that come too late ----------------------------------------------------------------------------------------
async def test_a_late_message_is_delivered_dropped_or_a_dead_letter_as_its_sender_wants(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("in time", 5, delay_max_late="5", delay_if_late="drop")
        for policy in ("deliver", "drop", "dead-letter"):
            await stage.schedule(policy, 6, delay_max_late="5", delay_if_late=policy)
        await stage.schedule("no policy", 6, delay_max_late="5")

        assert stage.fire() == ["deliver", "no policy", "in time"]
        await stage.settle()
        assert stage.told() == ["dropped drop", "rejected dead-letter"]
        assert dict(stage.dead_letters[0].headers)["delay-error"] == (
            b"the message is 6 ms late, but delay-max-late is 5 ms. Send it again if it is still needed."
        )


async def test_commands_that_a_crash_left_on_a_row_apply_when_it_is_due(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        await stage.ask(delay_op="reschedule", delay_id="a", delay_at=str(stage.clock.wall + 50))
        stage.sender.waiting.pop()[1].cancel()
        await stage.partition.pause(0)
        stage.begin(0)

        assert stage.fire() == []
        await stage.settle()
        assert stage.told() == ["rescheduled a"]
        stage.clock.pass_by(50)
        assert stage.fire() == ["a"]


# destinations that change -------------------------------------------------------------------------------------------
async def test_after_a_topic_has_lost_partitions_keys_go_where_it_now_puts_them_in_their_order(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.destinations.topics["orders"] = 7
        assert key_partition(b"k", 7) > 0
        await stage.schedule("a", 4)
        await stage.schedule("b", 3)
        stage.fire()
        await stage.schedule("c", 2)
        stage.fire()
        stage.destinations.topics["orders"] = 1
        stage.sender.refuse(PartitionGone("orders", key_partition(b"k", 7)))
        await stage.settle()
        await stage.schedule("d", 1)

        assert stage.fire() == ["a", "b", "c", "d"]
        stage.sender.accept()
        assert {delivery.partition for delivery in stage.sender.taken} == {0}


async def test_a_requested_partition_that_is_missing_is_looked_up_before_its_messages_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.deliver.missing_topics._LOOK_EVERY_S", 0.001)
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", delay_to_partition="3")
        await stage.schedule("b", delay_to_partition="1")
        stage.destinations.topics["orders"] = 2

        assert stage.fire() == ["b"]
        assert stage.told() == []
        await stage.until(lambda: stage.dispatcher.missing.gone((None, "orders", 3)))
        stage.fire()
        await stage.settle()
        assert stage.told() == ["rejected a"]
        assert dict(stage.dead_letters[0].headers)["delay-error"] == (
            b"topic orders has partitions 0 to 1, but delay-to-partition is 3. Send the message again with one of "
            b"these, or without this header."
        )


async def test_a_requested_partition_that_comes_back_gets_its_messages(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", delay_to_partition="3")
        stage.destinations.topics["orders"] = 2
        stage.fire()
        stage.destinations.topics["orders"] = 4
        await stage.until(lambda: not stage.dispatcher.missing.asking)

        assert stage.fire() == ["a"]


async def test_partitions_that_a_topic_gets_take_their_share_from_the_first_look_on(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.destinations.topics["orders"] = 1
        await stage.schedule("warm")
        assert stage.fire() == ["warm"]
        stage.sender.accept()
        await stage.settle()
        keys = [b"key-%d" % number for number in range(60)]
        for number, key in enumerate(keys):
            record = stage.logs[0].record(
                stage.clock.wall, delay_id=f"{number}", delay_to="orders", delay_at=str(stage.clock.wall)
            )
            record.key = key
            await stage.take(0, [record])
        stage.destinations.topics["orders"] = 8
        stage.fire()
        stage.sender.accept()

        sent = {int(delivery.id): delivery.partition for delivery in stage.sender.taken[1:]}
        assert sent == {number: key_partition(key, 8) for number, key in enumerate(keys)}


async def test_facts_about_destinations_are_forgotten_when_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.deliver.missing_topics._LOOK_EVERY_S", 0.001)
    monkeypatch.setattr("app.engine.deliver.missing_topics._GONE_S", 0.01)
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.fire()
        stage.sender.accept()
        await stage.settle()
        assert not stage.dispatcher._sent
        for number in range(3):
            assert not stage.dispatcher.missing.gone((None, f"absent-{number}", -1))
            await stage.until(lambda: not stage.dispatcher.missing.asking)
            await asyncio.sleep(0.02)  # longer than it is believed

        assert len(stage.dispatcher.missing._gone) == 1
