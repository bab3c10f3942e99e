"""A partition's writer: waiting records and outcomes form one step, within bounds and in order."""

import asyncio
import gc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.engine.due.due_loop import DueLoop
from app.engine.ownership.recovery import StoreRecovery
from app.engine.partition.partition import State
from app.engine.reports.latest_reports import RowVersion
from app.engine.steps.step import Step
from app.kafka.fast_path import in_python
from punctual.contract import native
from tables import Changes, Position, RememberedCommands, keys
from tables.changes import RememberedDelivery
from tables.entry import decode
from tests.app.stage import Stage
from tests.kernel.built import take_path
from tests.punctual.contract.records import NOW
from tests.tables.rows import apply, assert_sound, entry, key, put

if TYPE_CHECKING:
    from app.engine.commit.journal import Journal
    from app.engine.ownership.changelog_guard import ChangelogGuard
    from app.engine.reports.latest_reports import LatestReports
    from tables import DelayTable

MIB = 1 << 20


async def test_records_that_arrive_during_a_commit_go_into_the_next_step(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        commits = stage.journal.count_commits()
        stage.journal.open.clear()
        offers = []
        for number in range(20):
            record = stage.logs[0].record(NOW, delay_id=f"{number}", delay_to="orders", delay_at=str(NOW + 9))
            offers.append(stage.partition.offer([record]))
            await asyncio.sleep(0)
            if not number:
                await stage.until(lambda: stage.journal.asked)
        stage.journal.open.set()
        await asyncio.gather(*offers)

        assert len(commits) == 2
        assert stage.stores[0].counts.total == 20


async def test_requests_whose_ids_are_known_are_hardly_looked_at_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, requests = list[int](), in_python.requests

    def counted(rules: Any, records: Any, begin: int, end: int, *rest: Any) -> Any:
        looked.append(end - begin)
        return requests(rules, records, begin, end, *rest)

    take_path(monkeypatch, native=False)
    monkeypatch.setattr(in_python, "requests", counted)
    async with Stage(tmp_path) as stage:
        for _ in range(2):
            looked.clear()
            said = {"delay_to": "orders", "delay_at": str(NOW + 9)}
            await stage.partition.offer([stage.logs[0].record(NOW, delay_id=f"{n}", **said) for n in range(1_000)])

        assert stage.stores[0].counts.total == 1_000
    assert sum(looked) < 1_500


async def test_a_committed_step_is_freed_at_once_without_the_garbage_collector(tmp_path: Path) -> None:
    """In a cycle it would wait for the collector, and all deliveries for that, 20 to 60 ms every few seconds."""
    async with Stage(tmp_path) as stage:
        gc.collect()
        gc.disable()
        before = {id(found) for found in gc.get_objects()}
        try:
            for number in range(3):
                await stage.schedule(f"{number}")
                stage.fire()
                stage.sender.accept()
                await stage.settle()

            new = [found for found in gc.get_objects() if id(found) not in before]
            assert [found for found in new if isinstance(found, Step | Changes)] == []
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("guarantee", "records", "hurried_s", "full", "longest_s"),
    [
        ("at_least_once", 0, 0.0, False, 0.040),
        ("at_least_once", 1, 0.0, False, 0.005),
        ("at_least_once", 0, 0.1, False, 0.005),
        ("exactly_once", 0, 0.0, False, 0.018),
        ("exactly_once", 1, 0.0, False, 0.018),
        ("exactly_once", 0, 0.1, False, 0.005),
        ("exactly_once", 0, 0.0, True, 0.005),
    ],
)
async def test_steps_wait_for_company_on_a_longer_beat_unless_there_is_a_hurry(
    tmp_path: Path, guarantee: str, records: int, hurried_s: float, *, full: bool, longest_s: float
) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE=guarantee) as stage:
        partition, now = stage.partition, 1e9
        partition.writer._pacing.hurry(now, hurried_s)
        partition.writer._pacing.begin(now)
        partition.writer._inbox.extend(([], asyncio.Future()) for _ in range(records))
        partition.in_flight.full = full

        assert partition.writer._until_step(now + 0.001) == pytest.approx(longest_s - (now + 0.001) % longest_s)
        partition.writer._inbox.clear()


async def test_a_step_that_makes_room_is_committed_at_once(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_MAX_IN_FLIGHT="2") as stage:
        for number in range(3):
            await stage.schedule(f"{number}", 1)
        assert stage.fire() == ["0", "1"]

        assert stage.partition.writer._until_step(1e9 + 0.001) == 0
        stage.sender.accept()
        await stage.settle()
        assert stage.fire() == ["2"]
        assert stage.partition.writer._until_step(1e9 + 0.001) > 0
        stage.sender.accept()


async def test_with_exactly_once_the_first_step_after_a_pause_is_committed_at_once(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_GUARANTEE="exactly_once") as stage:
        stage.partition.writer._pacing.begin(100.001)

        assert stage.partition.writer._until_step(100.013) == pytest.approx(0.018 - 100.013 % 0.018)
        assert stage.partition.writer._until_step(100.020) == 0


@pytest.mark.parametrize(("due_ms", "hurried"), [(0, True), (40, True), (1_000, False)])
async def test_where_messages_are_due_at_once_there_is_a_hurry_for_a_second(
    tmp_path: Path, due_ms: int, *, hurried: bool
) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", -due_ms)
        now = asyncio.get_running_loop().time()

        assert stage.partition.writer.is_hurried(now + 0.9) == hurried
        assert not stage.partition.writer.is_hurried(now + 1)


async def test_as_long_as_something_is_left_for_the_next_step_there_is_a_hurry(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        assert stage.partition.writer._pacing._hurried_until == 0
        records = [stage.logs[0].record(NOW, delay_to="orders", delay_at=str(NOW + 5_000)) for _ in range(3)]
        await stage.take(0, records)
        assert stage.partition.writer._pacing._hurried_until == 0
        for record in records:
            record.value = b"x" * 900_000
            record.offset += 3
        await stage.take(0, records)

        assert stage.partition.writer._pacing._hurried_until > 0


@pytest.mark.parametrize(("due", "steps"), [(3, 1), (4, 4)])
async def test_while_there_is_no_room_a_step_has_few_records(tmp_path: Path, due: int, steps: int) -> None:
    async with Stage(tmp_path, DELAY_MAX_IN_FLIGHT="4") as stage:
        for number in range(due):
            await stage.schedule(f"{number}", 10)
        assert len(stage.fire()) == due
        commits = stage.journal.count_commits()
        records = [stage.logs[0].record(NOW, delay_to="orders", delay_at=str(NOW + 10**7)) for _ in range(25)]
        for record in records:
            record.value = b"x" * 4_000
        await stage.take(0, records)

        assert len(commits) == steps
        stage.sender.accept()


async def test_a_step_is_limited_by_bytes_and_no_record_is_lost_between_steps(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        commits = stage.journal.count_commits()
        records = []
        for number in range(60):
            record = stage.logs[0].record(NOW, delay_id=f"{number}", delay_to="orders", delay_at=str(NOW + number))
            record.value = b"x" * 50_000
            records.append(record)
        await stage.take(0, records)

        assert [event["id"] for event in stage.events] == [f"{number}" for number in range(60)]
        assert len(commits) >= 6
        assert max(commits) <= MIB * 5 // 8
        assert stage.stores[0].positions["delay-requests"].offset == 60


async def test_a_record_that_is_larger_than_a_step_has_one_of_its_own(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        records = [stage.logs[0].record(NOW, delay_to="orders", delay_at=str(NOW)) for _ in range(3)]
        records[1].value = b"x" * 900_000
        await stage.take(0, records)

        assert stage.stores[0].counts.total == 3


async def test_two_large_records_at_the_border_of_two_slices_do_not_share_a_step(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        commits = stage.journal.count_commits()
        records = [stage.logs[0].record(NOW, delay_to="orders", delay_at=str(NOW)) for _ in range(210)]
        for number in (199, 200):
            records[number].value = b"x" * (MIB - 1_000)
        await stage.take(0, records)

        assert max(commits) <= MIB * 3 // 2
        assert stage.stores[0].counts.total == 210


async def test_what_expires_waits_for_a_step_without_a_large_record(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.partition._services.limits.row = 2 * MIB
        await stage.ask(delay_op="cancel", delay_id="unknown")
        stage.clock.pass_by(600_001)
        for size, left in ((MIB, 1), (1, 0)):
            record = stage.logs[0].record(stage.clock.wall, delay_to="orders", delay_after="PT1H")
            record.value = b"x" * size
            await stage.take(0, [record])
            assert stage.stores[0].commands.count == left


async def test_what_expires_is_bounded_by_its_bytes_and_goes_on_until_it_is_gone(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        store, old = stage.stores[0], Changes()
        old.commands = {
            f"{number:0256}": RememberedCommands(1, stage.clock.wall, "delay-requests-0-1") for number in range(3_000)
        }
        apply(store, old)
        left: list[int] = []
        commit = stage.journal.commit

        async def counting(number: int, step: Any) -> None:
            left.append(sum(len(id_) for id_ in step.changes.commands))
            assert step.size >= left[-1], "it counts against the room for other changes"
            await commit(number, step)

        stage.journal.commit = counting  # type: ignore[assignment,method-assign]
        stage.clock.pass_by(1)
        await stage.ask(delay_to="orders", delay_after="PT1H")
        await stage.until(lambda: not store.commands.count)

        assert 0 < max(left) <= 128 * 1024


async def test_small_commands_that_move_large_rows_are_bounded_too(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        for number in range(12):
            record = stage.logs[0].record(NOW, delay_id=f"{number}", delay_to="orders", delay_at=str(NOW + 9))
            record.value = b"x" * 200_000
            await stage.take(0, [record])
        commits = stage.journal.count_commits()
        moves = [
            stage.logs[0].record(NOW, delay_op="reschedule", delay_id=f"{number}", delay_at=str(NOW + number))
            for number in range(12)
        ]
        await stage.take(0, moves)

        assert max(commits) <= MIB * 3 // 4
        assert stage.told() == [f"rescheduled {number}" for number in range(12)]


async def test_traces_are_forgotten_in_time(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.ask(delay_op="cancel", delay_id="a")
        assert stage.stores[0].commands.count == 1
        stage.clock.pass_by(600_000)
        await stage.ask(delay_id="b", delay_to="orders", delay_after="PT1H")

        assert stage.stores[0].commands.count == 0


async def test_remembered_deliveries_are_forgotten_in_steps_that_follow_until_all_are_gone(tmp_path: Path) -> None:
    async with Stage(tmp_path, DELAY_DEDUPE_WINDOW="PT1M") as stage:
        store, old = stage.stores[0], Changes()
        old.delivered = {f"{number}": RememberedDelivery(NOW, stage.clock.wall) for number in range(3_500)}
        apply(store, old)
        stage.clock.pass_by(1)
        await stage.ask(delay_to="orders", delay_after="PT1H")

        await stage.until(lambda: not store.delivered.count)


@pytest.mark.parametrize(("wanted", "written"), [("0", 4), ("3", 3)])
async def test_a_worker_with_an_older_row_version_keeps_the_fields_of_newer_rows(
    tmp_path: Path, wanted: str, written: int
) -> None:
    """It cannot take over a partition that has newer rows: only who wants an older version gets it."""
    async with Stage(tmp_path, DELAY_ROW_VERSION=wanted) as stage:
        reports = SimpleNamespace(lowest_version=4)
        versions = RowVersion(stage.settings.engine, cast("LatestReports", reports))
        versions._wanted = 0  # the existing row was written by a worker without a version limit
        stage.partition.writer._services = replace(stage.partition.writer._services, row_version=versions)
        await stage.ask(delay_id="a", delay_to="orders", delay_every="PT1S", delay_at=str(stage.clock.wall))
        reports.lowest_version, versions._wanted = 3, stage.settings.engine.row_version
        stage.fire()
        stage.sender.accept()
        await stage.settle()

        [(_, raw)] = stage.stores[0].raw_rows(b"")
        assert raw[0] == written
        assert (decode(raw).series is not None) == (written == 4)


async def test_what_follows_many_small_occurrences_is_bounded_whatever_is_in_the_row(tmp_path: Path) -> None:
    """A delivery has no word of the URL that its row has: 512 KiB of deliveries are megabytes of rows."""
    async with Stage(tmp_path, DELAY_CALLBACKS="https://*") as stage:
        stage.destinations.topics["orders"] = 1
        url, at = "https://example.com/" + "x" * 2_000, str(stage.clock.wall)
        said = {"delay_to": "orders", "delay_every": "PT1M", "delay_at": at, "delay_on_failure": url}
        await stage.take(0, [stage.logs[0].record(stage.clock.wall, delay_id=f"{n}", **said) for n in range(1_000)])
        commits, turns = stage.journal.count_commits(), 0
        while not all(keys.due_of(row) > stage.clock.wall for row, _ in stage.stores[0].rows()):
            stage.fire()
            stage.sender.accept()
            await stage.settle()
            turns += 1
            assert turns < 20

        assert max(commits) <= 2 * MIB * 5 // 8
        assert len(stage.sender.taken) == 1_000


HORIZON = {"DELAY_HORIZON": "PT1H", "DELAY_DEDUPE_WINDOW": "PT10M"}


def back(stage: Stage, id_: str) -> dict[str, str]:
    """Return the headers of a promotion from the cold tier."""
    said = {"delay_id": id_, "delay_to": "orders", "delay_at": str(NOW + 9)}
    return {**said, "delay_source": "delay-requests-0-77", "delay_parked": f"{NOW},{stage.clock.wall}"}


async def test_records_sent_to_the_cold_tier_are_forgotten_in_time(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, **HORIZON) as stage:
        await stage.ask(delay_op="reschedule", delay_id="a", delay_at="5")
        assert stage.stores[0].cold_marks.count == 1
        stage.clock.pass_by(600_000)
        await stage.ask(delay_to="orders", delay_at=str(NOW))

        assert stage.stores[0].cold_marks.count == 0


async def test_the_step_after_a_promotion_informs_the_cold_tier(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, **HORIZON) as stage:
        await stage.ask(**back(stage, "a"))
        await stage.until(lambda: len(stage.journal.sends) > 1)

        took, told = stage.journal.sends
        assert took == []
        assert [(out.topic, dict(out.headers)["delay-id"]) for out in told] == [("delay-cold", b"a")]


async def test_a_partition_that_is_given_up_tells_the_cold_tier_first(tmp_path: Path) -> None:
    async with Stage(tmp_path, 1, **HORIZON) as stage:
        stage.journal.open.clear()
        waiting = stage.partition.offer([stage.logs[0].record(NOW, **back(stage, "a"))])
        await stage.until(lambda: stage.journal.asked)
        stage.journal.open.set()
        await stage.partition.pause(5)

        assert waiting.done()
        assert [len(sends) for sends in stage.journal.sends] == [0, 1]


async def test_a_paused_partition_refuses_records(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        waiting = stage.partition.offer([stage.logs[0].record(NOW, delay_to="orders", delay_at="0")])
        await stage.partition.pause(0)

        assert waiting.cancelled()
        assert stage.partition.offer([]).cancelled()
        assert not stage.partition.working
        assert stage.partition.state is State.PAUSED
        await stage.partition.pause(0)


async def test_a_stopped_partition_keeps_its_reason(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.partition.pause(0)
        stage.partition.stop("orders-0 was recreated")
        await stage.partition.pause(0)

        assert (stage.partition.state, stage.partition.reason) == (State.STOPPED, "orders-0 was recreated")


async def test_what_must_end_the_process_is_heard_of(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        stage.journal.failure = OSError("the disk is gone")
        stage.partition.offer([stage.logs[0].record(NOW, delay_to="orders", delay_at="0")])
        await stage.until(lambda: stage.failures)

        assert stage.failures == [stage.journal.failure]
        stage.failures.clear()


async def test_rows_that_a_later_one_had_replaced_end_before_the_work_begins(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        store = stage.stores[0]
        changes = Changes()
        put(changes, key(5, 1), entry("a"))
        put(changes, key(7, 2), entry("b"))
        apply(store, changes)
        changes = Changes()
        put(changes, key(3, 3), entry("a"))
        apply(store, changes)
        store.clashes.update({key(5, 1), key(7, 2)})
        journal, table = cast("Journal", stage.journal), cast("DelayTable", None)
        guard = cast("ChangelogGuard", None)
        await StoreRecovery(
            stage.settings.topics, stage.settings.engine, stage.clock, table, journal, guard, 0
        ).end_replaced(0, store)

        assert stage.told() == ["replaced a"]
        assert (store.find("a"), store.find("b"), store.clashes) == (key(3, 3), key(7, 2), set())
        assert_sound(store)


async def test_a_topic_that_was_created_again_goes_on_from_where_the_old_one_ended(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        changes = Changes()
        changes.positions["delay-requests"] = Position(0, -1, 0, 100)
        apply(stage.stores[0], changes)
        await stage.schedule("a")

        assert stage.events[0]["source"] == "delay-requests-0-100"
        assert stage.stores[0].positions["delay-requests"].offset == 1


# the loop that fires ------------------------------------------------------------------------------------------------
async def running(stage: Stage, due: DueLoop) -> "asyncio.Task[None]":
    task = asyncio.get_running_loop().create_task(due.run())
    await stage.until(lambda: due.beat_s)
    return task


async def test_the_loop_wakes_for_due_messages_and_for_new_records(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        task = await running(stage, stage.due)
        await stage.schedule("now")
        await stage.until(lambda: stage.sender.ids() == ["now"])
        stage.sender.accept()
        await stage.schedule("soon", -20)
        stage.clock.pass_by(20)
        await stage.until(lambda: stage.sender.ids() == ["soon"])
        task.cancel()
        await stage.due.stop()


async def test_the_loop_sends_no_message_while_the_clock_is_suspect(tmp_path: Path) -> None:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", -3_000)
        stage.clock.pass_by(0, jump=5_000)
        task = await running(stage, stage.due)
        beats = stage.due.beat_s
        stage.due.notify()
        await stage.until(lambda: stage.due.beat_s > beats)
        assert stage.sender.ids() == []
        stage.clock.compare(stage.clock.wall, stage.clock.wall, stage.clock.wall)
        stage.due.notify()
        await stage.until(lambda: stage.sender.ids() == ["a"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def slices(stage: Stage, monkeypatch: pytest.MonkeyPatch, number: int, value: bytes, cost_s: float) -> list[int]:
    """Hand in records that take `cost_s` seconds each to decode; return the size of each slice."""
    loop, spent, decoded, sizes = asyncio.get_running_loop(), [0.0], list[int](), list[int]()
    real, decode, ingest = loop.time, native.decode, stage.partition.writer._builder._ingest
    read = ingest.read

    def expensive(record: Any) -> Any:
        spent[0] += cost_s
        decoded.append(record.offset)
        return decode(record)

    def counted(*given: Any) -> Any:
        found = read(*given)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(loop, "time", lambda: real() + spent[0])
    monkeypatch.setattr(ingest, "_decoders", dict.fromkeys(ingest._decoders, expensive))
    monkeypatch.setattr(ingest, "read", counted)
    records = [
        stage.logs[0].record(NOW, delay_id=f"{one}", delay_to="orders", delay_after="PT1H", delay_jitter="1")
        for one in range(number)
    ]
    await stage.partition.offer([replace(record, value=value) for record in records])
    assert decoded == [record.offset for record in records], "each is read once"
    assert stage.stores[0].counts.total == number
    return sizes


async def test_expensive_records_are_taken_in_shorter_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others get their turn after a few records that cost a millisecond each; each record is read once."""
    async with Stage(tmp_path) as stage:
        assert max(await slices(stage, monkeypatch, 50, b"", 0.001)) <= 8


async def test_other_partitions_get_their_turn_after_each_large_expensive_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Stage(tmp_path) as stage:
        assert await slices(stage, monkeypatch, 6, b"x" * 100_000, 0.04) == [1] * 6


async def test_expensive_outcomes_are_handled_in_several_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, spent = asyncio.get_running_loop(), [0.0]
    async with Stage(tmp_path) as stage:
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + spent[0])
        builder, applied = stage.partition.writer._builder, list[int]()

        def dear(_step: Step, outcome: Any) -> None:
            spent[0] += 0.006
            applied.append(outcome)

        monkeypatch.setattr(builder, "_apply", dear)
        builder._outcomes.extend(cast("Any", range(7)))
        again = list[bool]()
        await builder.build(Step(NOW, NOW), lambda: again.append(True))

        assert applied == [0, 1]
        assert again
