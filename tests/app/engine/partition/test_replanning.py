"""Series planned by other rules of a zone: each goes on by those of this worker, with its number and an event."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from app.engine.partition.replanning import Replanning
from app.engine.steps import series_rules
from app.engine.steps.context import PartitionContext
from app.engine.steps.plan import PAUSED_MS
from app.engine.steps.step import Step
from punctual.contract.cron import Schedule
from punctual.contract.zones import fixed_zone
from tables import Changes, Series, keys
from tables.entry import encode
from tests.app.workbench import Event, Workbench
from tests.harness.zone_files import zones_in
from tests.punctual.contract.records import NOW

HOUR = 3_600_000
DAY = 24 * HOUR
ZONE = "Test/Town"
Give = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def give(tmp_path: Path) -> Iterator[Give]:
    with zones_in(tmp_path / "zones") as given:
        given(ZONE, "UTC0")
        yield given


def start(bench: Workbench) -> list[Event]:
    """Plan series as the start of a partition does; return the events. Rows that are overdue come last."""
    context = PartitionContext.of(bench.number, bench.settings, bench.limits, bench.store, bench.claims)

    async def steps() -> list[Event]:
        rules, events = Replanning(context), list[Event]()
        for phase in ("later", "overdue"):
            done = rules.begin(keys.due_bound(bench.now_ms)) if phase == "later" else rules.finish()
            while not rules.over:
                step = Step(bench.now_ms)
                rules.put_into(step)
                events += bench.apply(step)
            assert done is None or done.done()
        return events

    return asyncio.run(steps())


def daily(bench: Workbench, id_: str = "nightly", cron: str = "0 9 * * *", **said: str) -> int:
    """Ask for a message at nine; return when its next occurrence is due."""
    bench.ask(delay_id=id_, delay_to="orders", delay_cron=cron, delay_zone=ZONE, **said)
    return bench.pending()[id_]


def deliver(bench: Workbench, id_: str = "nightly") -> list[Event]:
    row = bench.claim(id_)
    bench.now_ms = max(bench.now_ms, keys.due_of(row))
    return bench.run(bench.delivered(row))


@pytest.mark.parametrize(("rules", "by"), [("<-01>1", HOUR), ("<+01>-1", -HOUR), ("<+0030>-0:30", -HOUR // 2)])
def test_an_occurrence_moves_to_the_new_rule_with_its_number(bench: Workbench, give: Give, rules: str, by: int) -> None:
    daily(bench, delay_count="3")
    deliver(bench)
    due = bench.pending()["nightly"]
    assert start(bench) == []
    give(ZONE, rules)
    bench.open_again()
    events = start(bench)

    assert [(e["event"], e["due"], e["reason"], e["occurrence"]) for e in events] == [
        ("rescheduled", due + by, "zone-rules", 2)
    ]
    assert bench.pending() == {"nightly": due + by}
    assert [event["event"] for event in deliver(bench)] == ["delivered", "accepted"]
    assert bench.pending() == {"nightly": due + by + DAY}
    assert [event["event"] for event in deliver(bench)] == ["delivered"]


def test_a_start_with_the_same_rules_looks_at_no_row(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    daily(bench)
    start(bench)
    bench.open_again()
    monkeypatch.setattr(bench.store, "raw_rows", None)

    assert start(bench) == []


def test_a_start_after_another_worker_wrote_looks_again(bench: Workbench) -> None:
    daily(bench)
    start(bench)
    zones = bench.store.zones
    assert zones
    bench.store.replay([(keys.WRITER, keys.long_bytes(bench.store.writer))], bench.store.offset, NOW)
    assert bench.store.zones == zones
    bench.store.replay([(keys.WRITER, keys.long_bytes(bench.store.writer + 1))], bench.store.offset + 1, NOW)
    assert bench.store.zones == b""
    start(bench)
    for _ in range(2):
        assert bench.store.zones == zones
        bench.store.apply(Changes(), bench.store.offset, bench.store.writer + 1, NOW)  # it claims the partition
        bench.open_again()
    assert bench.store.zones == zones


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_start_with_the_former_rules_plans_again_what_an_interrupted_start_has_planned(
    bench: Workbench, give: Give, steps: int
) -> None:
    """A worker with other rules ended after `steps` of its steps, and after it had taken a new message."""
    due = daily(bench)
    start(bench)
    give(ZONE, "<-01>1")
    bench.open_again()
    context = PartitionContext.of(bench.number, bench.settings, bench.limits, bench.store, bench.claims)
    rules = Replanning(context)
    new = daily(bench, "new")

    async def interrupted() -> None:
        rules.begin(keys.due_bound(bench.now_ms))
        for _ in range(steps):
            step = Step(bench.now_ms)
            rules.put_into(step)
            bench.apply(step)

    asyncio.run(interrupted())
    assert bench.pending() == {"nightly": due + HOUR * bool(steps), "new": new}
    give(ZONE, "UTC0")
    bench.open_again()
    start(bench)

    assert bench.pending() == {"nightly": due, "new": new - HOUR}


def test_an_occurrence_that_is_moved_paused_or_extra_keeps_its_due_time_and_the_next_follows_the_new_rule(
    bench: Workbench, give: Give
) -> None:
    due = {id_: daily(bench, id_) for id_ in ("earlier", "later", "paused", "extra")}["extra"]
    bench.command("reschedule", "earlier", delay_at=str(due - HOUR // 4))
    bench.command("reschedule", "later", delay_at=str(due + 2 * HOUR))
    bench.command("pause", "paused")
    bench.command("deliver-now", "extra")
    before = bench.pending()
    give(ZONE, "<-01>1")
    bench.open_again()

    assert start(bench) == []
    assert bench.pending() == before
    assert before["paused"] == PAUSED_MS
    for id_ in ("extra", "earlier", "later"):
        deliver(bench, id_)
    bench.command("resume", "paused")
    nine = due + HOUR
    assert bench.pending() == {"extra": nine, "earlier": nine + DAY, "later": nine + DAY, "paused": nine + DAY}


def test_one_whose_time_has_passed_by_the_new_rule_is_due_at_once_or_missed(bench: Workbench, give: Give) -> None:
    due = daily(bench)
    give(ZONE, "<+01>-1")
    bench.open_again()
    bench.now_ms = due - HOUR // 2
    (event,) = start(bench)

    assert event["due"] == due - HOUR < bench.now_ms
    assert deliver(bench)[0]["event"] == "delivered"
    assert bench.pending() == {"nightly": due + DAY - HOUR}


def test_an_overdue_occurrence_waits_for_its_time_by_the_new_rule(bench: Workbench, give: Give) -> None:
    due = daily(bench)
    give(ZONE, "<-01>1")
    bench.open_again()
    bench.now_ms = due + HOUR // 2
    start(bench)

    assert bench.pending() == {"nightly": due + HOUR}


def test_the_last_one_before_the_end_of_its_series_stays(bench: Workbench, give: Give) -> None:
    due = daily(bench, delay_until=str(NOW + 2 * DAY))
    while bench.pending()["nightly"] + DAY <= NOW + 2 * DAY:
        deliver(bench)
        due += DAY
    give(ZONE, "<-23>23")
    bench.open_again()
    start(bench)

    assert bench.pending() == {"nightly": due}


def test_other_series_and_messages_are_left_alone_and_many_are_found(bench: Workbench, give: Give) -> None:
    for number in range(120):
        daily(bench, f"s{number}", cron=f"{number % 60} 9 * * *")
    bench.schedule("plain", NOW + HOUR)
    bench.ask(delay_id="utc", delay_to="orders", delay_cron="0 9 * * *")
    bench.ask(delay_id="each", delay_to="orders", delay_every="PT1H")
    before = bench.pending()
    give(ZONE, "<+01>-1")
    bench.open_again()
    events = start(bench)

    assert {event["id"] for event in events} == {f"s{number}" for number in range(120)}
    assert len(events) == 120
    after = bench.pending()
    assert {id_ for id_ in before if after[id_] == before[id_]} == {"plain", "utc", "each"}


def test_the_row_of_a_worker_that_kept_no_offset_moves_to_the_nearest_time(bench: Workbench, give: Give) -> None:
    due = daily(bench)
    row = bench.store.find("nightly")
    entry = None if row is None else bench.store.entry(row)
    assert row is not None
    assert entry is not None
    assert entry.series is not None
    old = msgspec.msgpack.encode(msgspec.msgpack.decode(entry.series.rule)[:9])
    older = msgspec.structs.replace(entry, series=Series(old, due))
    step = Step(NOW)
    step.changes.rewrite(row, older, encode(older))
    bench.apply(step)
    give(ZONE, "<+01>-1")
    bench.open_again()
    start(bench)

    assert bench.pending() == {"nightly": due - HOUR}


@pytest.mark.parametrize(("rules", "by"), [("<-01>1", HOUR), ("<+01>-1", -HOUR), ("<-02>2", 2 * HOUR)])
def test_an_occurrence_in_flight_is_left_alone_and_its_local_time_does_not_occur_twice(
    bench: Workbench, give: Give, rules: str, by: int
) -> None:
    due = daily(bench, delay_count="2")
    row = bench.claim("nightly")
    give(ZONE, rules)

    assert start(bench) == []
    bench.now_ms = due
    bench.run(bench.delivered(row))
    assert bench.pending() == {"nightly": due + DAY + by}
    assert [event["event"] for event in deliver(bench)] == ["delivered"]


@pytest.mark.parametrize("rules", ["<-0007>0:07", "<+0007>-0:07", "<-0030>0:30", "<+01>-1", "<-01>1"])
@pytest.mark.parametrize("cron", ["0,20,40 9-11 * * *", "*/15 * * * *", "5 * * * *"])
def test_no_time_is_lost_or_repeated_after_an_occurrence_sent_by_other_rules(
    bench: Workbench, give: Give, cron: str, rules: str
) -> None:
    due_s = daily(bench, cron=cron, delay_misfire="catch-up") // 1000
    row, schedule = bench.claim("nightly"), Schedule(cron, ZONE)
    following = schedule.after(due_s)
    assert following is not None
    give(ZONE, rules)
    bench.now_ms = due_s * 1000
    bench.run(bench.delivered(row))

    by_the_new_rules = schedule.replanned(following, 0)
    assert by_the_new_rules is not None
    assert bench.pending()["nightly"] == by_the_new_rules * 1000


def test_a_zone_that_is_unknown_here_keeps_its_offset_and_its_name(
    bench: Workbench, tmp_path: Path, give: Give
) -> None:
    """A worker that has the zone continues with its rules, even if another worker had the series in between."""
    give(ZONE, "<+02>-2")
    due = daily(bench, delay_count="9")
    file = tmp_path / "zones" / ZONE
    kept = file.read_bytes()
    file.unlink()
    give("Test/Other", "UTC0")
    series_rules._rule.cache_clear()
    bench.open_again()
    assert start(bench) == []
    deliver(bench)
    bench.command("deliver-now", "nightly")  # an occurrence in addition changes the count, which is written
    deliver(bench)
    assert bench.pending() == {"nightly": due + DAY}

    file.write_bytes(kept)
    give("Test/Other", "UTC0")
    series_rules._rule.cache_clear()
    bench.open_again()
    assert start(bench) == []
    give(ZONE, "<+03>-3")
    bench.open_again()
    assert [event["due"] for event in start(bench)] == [due + DAY - HOUR]


@pytest.mark.parametrize(
    ("offset", "zone"), [(0, "Etc/GMT+0"), (7_200, "Etc/GMT-2"), (-18_000, "Etc/GMT+5"), (1_800, None)]
)
def test_a_fixed_zone_is_as_far_ahead_as_its_offset(offset: int, zone: str | None) -> None:
    assert fixed_zone(offset) == zone
    assert zone is None or Schedule("0 9 * * *", zone).offset(NOW // 1000) == offset
