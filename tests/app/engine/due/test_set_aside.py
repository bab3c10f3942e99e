"""Paused or rate-limited destinations delay only themselves, and get their messages in order."""

from pathlib import Path
from typing import Any

import pytest

from app.engine.due.set_aside import LONGEST_S
from app.engine.reports.overdue import overdue
from app.engine.throttle.throttle import BACKLOG_MS
from punctual.contract.rate import Rate
from tables import PartitionStore
from tests.app.stage import Stage


async def through(stage: Stage, *, cycles: int = 1, each_ms: int = 20) -> list[str]:
    """Let time pass, and have all that is sent acknowledged; return the ids in the order in which they were sent."""
    before = len(stage.sender.taken)
    for _ in range(cycles):
        stage.clock.pass_by(each_ms)
        stage.fire()
        stage.sender.accept()
        await stage.settle()
    return [delivery.id for delivery in stage.sender.taken[before:]]


async def test_a_paused_destination_gets_no_messages_and_its_neighbours_get_theirs(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.control("orders", paused=True)
        for number in range(4):
            await stage.schedule(f"{number}", 10 - number, delay_to=("orders", "payments")[number % 2])

        assert stage.fire() == ["1", "3"]
        stage.control("orders")
        assert stage.fire() == ["1", "3", "0", "2"]


async def test_waiting_messages_are_sent_by_due_time_and_arrival_after_a_resume(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, 3, DELAY_MAX_IN_FLIGHT="12") as stage:
        stage.control("orders", paused=True)
        for number in (5, 3, 9, 1):
            await stage.schedule(f"{number}", 100 - number, delay_to_partition="0")
        await through(stage, cycles=3)
        for number in (7, 2, 0):  # they come late, and belong before rows that were already skipped
            await stage.schedule(f"{number}", 160 - number, delay_to_partition="0")
        assert await through(stage, cycles=5) == []
        stage.control("orders")

        assert await through(stage, cycles=5) == ["0", "1", "2", "3", "5", "7", "9"]


async def test_commands_are_applied_during_a_pause(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.control("orders", paused=True)
        for id_ in ("stays", "gone", "moved", "replaced"):
            await stage.schedule(id_)
        assert stage.fire() == []
        await stage.ask(delay_op="cancel", delay_id="gone")
        await stage.ask(delay_op="reschedule", delay_id="moved", delay_at=str(stage.clock.wall + 60_000))
        await stage.schedule("replaced", delay_to="payments")
        assert stage.told() == ["cancelled gone", "rescheduled moved", "replaced replaced"]
        assert stage.fire() == ["replaced"]
        stage.control("orders")

        assert stage.fire() == ["replaced", "stays"]


async def test_messages_in_flight_finish_and_those_gathered_behind_them_wait(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for number in range(3):
            await stage.schedule(f"{number}", 10 - number, delay_to_partition="0")
            stage.fire()
        assert stage.sender.ids() == ["0"]
        stage.control("orders", paused=True)
        stage.sender.accept()
        await stage.settle()
        assert stage.fire() == []
        assert stage.told() == ["delivered 0"]
        stage.control("orders")

        assert stage.fire() == ["1", "2"]


async def test_how_late_is_too_late_is_judged_when_it_would_be_sent(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.control("orders", paused=True)
        for policy in ("drop", "dead-letter", "deliver"):
            await stage.schedule(policy, delay_max_late="1000", delay_if_late=policy)
        stage.clock.pass_by(5_000)
        stage.fire()
        await stage.settle()
        assert stage.told() == []
        stage.control("orders")

        assert stage.fire() == ["deliver"]
        await stage.settle()
        assert stage.told() == ["dropped drop", "rejected dead-letter"]


async def test_a_pause_ends_by_itself(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a")
        stage.control("orders", paused=True, until_ms=stage.clock.wall + 100)
        stage.clock.pass_by(99)
        assert stage.due.cycle(stage.clock.now_ms()) == pytest.approx(0.001)
        assert stage.sender.ids() == []
        stage.clock.pass_by(1)

        assert stage.fire() == ["a"]


async def test_waiting_rows_are_examined_once_even_if_others_come_late_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Stage(tmp_path, 1, 50, DELAY_MAX_IN_FLIGHT="200") as stage:
        stage.control("orders", paused=True)
        for number in range(200):
            await stage.schedule(f"{number}", 10_000 - number)
        await through(stage, cycles=6)
        looked = list[bytes]()

        def noted(self: PartitionStore, *asked: Any, method: Any = PartitionStore.due) -> Any:
            found = method(self, *asked)
            looked.extend(key for key, _ in found[0])
            return found

        monkeypatch.setattr(PartitionStore, "due", noted)
        for number in range(10):
            await stage.schedule(f"late-{number}", 20_000, delay_to="payments")
            assert await through(stage) == [f"late-{number}"]
        stage.sender.stuck["payments", 0] = 1.0
        await stage.schedule("held", 20_000, delay_to="payments", delay_to_partition="0")
        assert await through(stage) == []
        stage.sender.stuck.clear()

        assert await through(stage, cycles=3) == ["held"]
        assert not looked
        assert stage.due.cycle(stage.clock.now_ms()) == LONGEST_S


async def test_a_cap_is_kept_in_order_and_delays_no_neighbour(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_RATES="orders=50/s") as stage:
        for number in range(30):
            await stage.schedule(f"o{number}", 1_000 - number, delay_to_partition="0")
        for number in range(30):
            await stage.schedule(f"p{number}", 500 - number, delay_to="payments", delay_to_partition="0")
        assert await through(stage) == [f"p{number}" for number in range(30)]
        first = await through(stage, cycles=9)  # 180 ms
        later = await through(stage, cycles=21)  # 420 ms

        assert len(first) in (8, 9, 10)
        assert len(later) in (20, 21, 22)
        assert first + later == [f"o{number}" for number in range(30)][: len(first + later)]


async def test_partitions_take_turns(tmp_path: Path) -> None:
    async with Stage(tmp_path, 4, DELAY_PARTITIONS="4", DELAY_RATES="orders=100/s") as stage:
        for number in range(4):
            for turn in range(20):
                await stage.ask(number, delay_to="orders", delay_at=str(stage.clock.wall - 100 + turn))
        sent = await through(stage, cycles=20)

        assert len(sent) in range(38, 42)
        shares = [sum(id_.startswith(f"delay-requests-{number}-") for id_ in sent) for number in range(4)]
        assert max(shares) - min(shares) <= 2


async def test_a_rate_in_a_record_wins_and_counts_at_once(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_RATES="orders=1/h") as stage:
        for number in range(20):
            await stage.schedule(f"{number}", 1_000 - number)
        assert await through(stage, cycles=10) == []
        stage.control("orders", rate=Rate(50.0))

        assert len(await through(stage, cycles=10)) in range(9, 12)
        stage.control("orders", unlimited=True)
        assert len(await through(stage, cycles=2)) in range(8, 12)


async def test_a_backlog_is_delivered_in_order_before_new_messages(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_CATCH_UP_RATE="50/s") as stage:
        for number in range(10):
            await stage.schedule(f"old{number}", BACKLOG_MS + 5_000 - number, delay_to_partition="0")
        await stage.schedule("new", 10, delay_to_partition="0")
        await stage.schedule("neighbour", 10, delay_to="payments")
        assert await through(stage) == ["neighbour"]

        assert await through(stage, cycles=15) == [*(f"old{number}" for number in range(10)), "new"]


async def test_a_backlog_is_caught_up_however_much_is_on_its_way_that_is_due_now(tmp_path: Path) -> None:
    async with Stage(tmp_path, 2, DELAY_CATCH_UP_RATE="2/s", DELAY_PARTITIONS="2") as stage:
        for number in range(120):  # half of the ids belong elsewhere
            await stage.schedule(f"old{number}", BACKLOG_MS + 5_000)
        sent = list[str]()
        for _ in range(100):
            now = stage.clock.wall
            live = [stage.logs[1].record(now, delay_to="orders", delay_at=str(now)) for _ in range(30)]
            await stage.take(1, live)
            sent += await through(stage, each_ms=200)

        assert sum(id_.startswith("old") for id_ in sent) in range(38, 43)


async def test_blocked_messages_are_examined_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Stage(tmp_path) as stage:
        stage.control("orders", paused=True)
        await stage.schedule("a")
        stage.fire()
        stage.control("orders")
        monkeypatch.setattr(stage.due._set_aside, "_takes", lambda *_: False)

        assert stage.due.cycle(stage.clock.now_ms()) == pytest.approx(0.02)


async def test_paused_messages_are_not_overdue_but_their_late_neighbours_are(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_RATES="payments=1/h") as stage:

        def found() -> int:
            rows = stage.partition.in_flight.oldest(stage.partition.store)
            return overdue(stage.partition, rows, stage.clock.wall - 1_000, stage.due.throttle)

        for number in range(5):
            await stage.schedule(f"{number}", 5_000, delay_to=("orders", "payments")[number % 2])
        assert found() == 5
        stage.control("orders", paused=True)
        stage.fire()
        assert found() == 0
        stage.control("orders")
        stage.sender.stuck["orders", 0] = stage.sender.stuck["orders", 1] = 1.0
        stage.sender.stuck["orders", 2] = stage.sender.stuck["orders", 3] = 1.0
        stage.fire()
        assert found() == 3
        await stage.schedule("unseen", 2_000, delay_to="orders")
        assert found() == 4


async def test_deliveries_that_were_late_on_purpose_do_not_count_as_late(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_RATES="orders=50/s") as stage:
        for number in range(5):
            await stage.schedule(f"{number}", 5_000)
        await stage.schedule("late", 3_000, delay_to="payments")
        assert len(await through(stage, cycles=10)) == 6

        assert sum(stage.due.lateness.histogram().values()) == 1


async def test_a_cluster_s_rate_limit_covers_all_its_topics_and_delays_no_other_cluster(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text('[clusters.other]\nbootstrap_servers = "h:1"\nrate = "50/s"', "utf-8")
    async with Stage(tmp_path / "stage", DELAY_CLUSTERS=str(file)) as stage:
        for number in range(40):
            more = {} if number < 10 else {"delay_to_cluster": "other"}
            await stage.schedule(f"{number}", 10, delay_to=("orders", "payments")[number % 2], **more)

        sent = await through(stage, cycles=15)
        assert {f"{number}" for number in range(10)} <= set(sent)
        assert 10 <= len(sent) - 10 <= 17
        assert len({int(id_) % 2 for id_ in sent if int(id_) >= 10}) == 2
        assert len(await through(stage, cycles=50)) == 40 - len(sent)


async def test_unacknowledged_messages_count_for_their_clusters_limit_on_every_topic(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text('[clusters.other]\nbootstrap_servers = "h:1"\nrate = "10/s"', "utf-8")
    async with Stage(tmp_path / "stage", DELAY_CLUSTERS=str(file)) as stage:
        for number in range(200):
            to = ("orders", "payments")[number % 2]
            await stage.schedule(f"{number}", 10, delay_to=to, delay_to_cluster="other")
        for _ in range(600):
            stage.clock.pass_by(50)
            stage.fire()
            await stage.settle()
        sent = sum(len(partition.in_flight.claims) for partition in stage.due.partitions.values())
        assert 90 < sent <= 105  # of ten seconds, in thirty: no acknowledgment has come yet
