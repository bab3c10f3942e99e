"""What each partition says of itself every second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiokafka.record.memory_records import MemoryRecords

from app.engine.partition.partition import State
from app.engine.reports.agreement import fingerprint
from app.engine.reports.progress import ProgressReporter
from app.kafka import Ack, Batch
from tables import keys
from tables.entry import VERSION
from tests.app.stage import Stage


class Topic:
    """The progress topic: keeps the reports, and stamps them with a broker's time."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self.fast_ms = stage, 0
        self.records: dict[bytes, Any] = {}
        self.sizes: list[int] = []

    async def submit(self, topic: str, partition: int, batch: Batch) -> Ack:
        assert (topic, partition) == ("delay-progress", 0)
        raw = batch.build(1, 0, 0)
        self.sizes.append(len(raw))
        for record in MemoryRecords(raw).next_batch():
            self.records[record.key] = msgspec.json.decode(record.value)
        return Ack(0, self._stage.clock.wall - self.fast_ms)


def reporting(stage: Stage, last: Callable[[int], bytes | None] = lambda _: None) -> tuple[ProgressReporter, Topic]:
    topic = Topic(stage)
    return ProgressReporter(stage.settings, stage.clock, cast("Any", topic), stage.due, last), topic


def hold(stage: Stage, number: int, counts: dict[str, int]) -> None:
    """Set the counts of a partition's store."""
    kept = stage.stores[number].counts
    kept.destinations.clear()
    kept.destinations.update(counts)
    kept.total = sum(counts.values())


async def test_a_report_has_the_position_and_the_counts_of_its_partition(tmp_path: Path) -> None:
    async with Stage(tmp_path, WORKER_URL="http://worker-1") as stage:
        progress, topic = reporting(stage)
        await stage.schedule("a", -5_000)
        await stage.schedule("b", -9_000, delay_to="payments")
        await progress.report()

        said = topic.records[b"0"]
        assert said.pop("version")
        now = stage.clock.wall
        assert said == {
            "partition": 0,
            "at": now,
            "fired_to": now,
            "read_to": {"delay-requests": stage.stores[0].positions["delay-requests"].stamp_ms},
            "reads": VERSION,
            "rows": VERSION,
            "positions": {"delay-requests": 2},
            "pending": {"orders": 1, "payments": 1},
            "overdue": 0,
            "next_due": now + 5_000,
            "held": {},
            "lateness": {},
            "worker": "http://worker-1",
            "settings": fingerprint(stage.settings),
        }


async def test_messages_in_flight_or_held_are_not_settled_yet(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        progress, topic = reporting(stage)
        stage.sender.stuck["orders", 1] = 1.0
        await stage.schedule("held", 5_000, delay_to_partition="1")
        await stage.schedule("sent", 3_000, delay_to_partition="0")
        stage.fire()
        await progress.report()

        said, now = topic.records[b"0"], stage.clock.wall
        assert (said["fired_to"], said["next_due"], said["overdue"]) == (now - 5_001, now - 5_000, 2)
        assert said["held"] == {"orders": now - 5_000}
        stage.sender.stuck.clear()
        stage.fire()
        stage.sender.accept()
        await stage.settle()
        await progress.report()
        said = topic.records[b"0"]
        assert (said["fired_to"], said["next_due"], said["overdue"], said["held"]) == (now, None, 0, {})


async def test_a_recurring_message_that_is_paused_is_not_the_next_that_is_due(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        progress, topic = reporting(stage)
        await stage.ask(delay_to="orders", delay_id="sync", delay_every="PT5M")
        await progress.report()
        assert topic.records[b"0"]["next_due"] == stage.clock.wall + 300_000
        await stage.ask(delay_op="pause", delay_id="sync")
        await progress.report()
        said = topic.records[b"0"]
        assert (said["pending"], said["next_due"]) == ({"orders": 1}, None)


async def test_overdue_counts_whole_hours_and_the_present_one(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        progress, topic = reporting(stage)
        for late in (8_000_000, 4_000_000, 2_000, 1_001, 1_000, 999, 0, -1):
            await stage.schedule(f"{late}", late)
        await progress.report()

        assert topic.records[b"0"]["overdue"] == 5


async def test_a_workers_lateness_is_reported_once(tmp_path: Path) -> None:
    async with Stage(tmp_path, 2) as stage:
        progress, topic = reporting(stage)
        await stage.schedule("a", 7)
        stage.fire()
        await progress.report()

        assert [said["lateness"] for _, said in sorted(topic.records.items())] == [{"8": 1}, {}]


async def test_partitions_that_do_not_work_are_not_reported(tmp_path: Path) -> None:
    async with Stage(tmp_path, 3) as stage:
        progress, topic = reporting(stage)
        stage.due.partitions[1]._state = State.RESTORING
        stage.due.partitions[2]._state = State.CATCHING_UP
        await progress.report()

        assert sorted(topic.records) == [b"0", b"2"]


async def test_the_brokers_time_of_the_record_confirms_the_clock_and_firing_goes_on(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        progress, topic = reporting(stage)
        stage.clock.pass_by(0, jump=5_000)
        stage.clock.now_ms()
        topic.fast_ms = 5_000
        await progress.report()
        assert not stage.clock.may_fire()
        topic.fast_ms = 0
        await progress.report()

        assert stage.clock.may_fire()
        assert stage.due._changed.is_set()


async def test_failure_callbacks_are_no_pending_messages(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_CALLBACKS="*") as stage:
        progress, topic = reporting(stage)
        await stage.ask(delay_to="orders", delay_at="soon", delay_on_failure="https://example.com")
        await progress.report()

        assert topic.records[b"0"]["pending"] == {}


async def test_reports_of_many_destinations_stay_small_and_still_add_up(tmp_path: Path) -> None:
    async with Stage(tmp_path, 64) as stage:
        progress, topic = reporting(stage)
        counts = {f"{number:04d}{'x' * 240}": number + 1 for number in range(1_000)}
        for number in range(64):
            hold(stage, number, {"": 7, **counts})
        await progress.report()

        assert len(topic.records) == 64
        assert max(topic.sizes) < 80_000
        for said in topic.records.values():
            named, rest = said["pending"], said["pending_rest"]
            assert sum(named.values()) + rest["messages"] == sum(counts.values())
            assert len(named) + rest["destinations"] == 1_000
            assert min(named.values()) == 1_001 - len(named)
            assert len(msgspec.json.encode(said)) < 10_000


async def test_blocked_destinations_are_listed_as_far_as_there_is_room(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        progress, topic = reporting(stage)
        stage.partitions[0].in_flight.held.update(
            {(None, f"to-{due}", 0): keys.row_key(due, 0, 0) for due in range(1_000, 1_300)}
        )
        await progress.report()

        said = topic.records[b"0"]
        assert said["held"] == {f"to-{due}": due for due in range(1_000, 1_100)}
        assert said["held_rest"] == {"destinations": 200}


async def test_a_partition_that_is_not_at_work_has_its_last_report_repeated(tmp_path: Path) -> None:
    """Otherwise a partition that is being restored would look like one without an owner."""
    last = {"partition": 0, "at": 5, "pending": {"orders": 3}, "lateness": {"5": 1}, "later": "kept"}
    async with Stage(tmp_path, 2) as stage:
        progress, topic = reporting(stage, {0: msgspec.json.encode(last)}.get)
        for state in (State.RESTORING, State.STOPPED):
            stage.due.partitions[0]._state = state
            topic.records.clear()
            for _ in range(4):
                await progress.report()
            assert topic.records[b"0"] == {**last, "lateness": {}, "state": str(state)}
        stage.due.partitions[0]._state = State.LIVE
        await progress.report()
        assert "state" not in topic.records[b"0"]


@pytest.mark.parametrize("added", [b',"later":"\xff"}', b',"later":1e999}', b',"later":"' + b"x" * 600_000 + b'"}'])
async def test_a_report_that_cannot_be_repeated_is_left_alone(tmp_path: Path, added: bytes) -> None:
    last = b'{"partition":0,"at":5' + added
    async with Stage(tmp_path, 2) as stage:
        progress, topic = reporting(stage, {0: last}.get)
        stage.due.partitions[0]._state = State.STOPPED
        for _ in range(4):
            await progress.report()

        assert b"0" not in topic.records
        assert b"1" in topic.records


async def test_a_partition_that_begins_is_silent_until_the_last_word_of_its_former_owner_is_read(
    tmp_path: Path,
) -> None:
    async with Stage(tmp_path) as stage:
        progress, topic = reporting(stage, lambda _: b"{}")
        stage.due.partitions[0]._state = State.RESTORING
        for _ in range(3):
            await progress.report()
        given_away = stage.partitions.pop(0)
        await progress.report()
        stage.partitions[0] = given_away
        for _ in range(3):
            await progress.report()

        assert not topic.records
