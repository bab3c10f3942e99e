"""Messages due beyond the horizon are parked, and the cold tier gets every record about ids that it may hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.steps.outcomes import Unsent
from app.engine.steps.step import Step
from tables import Changes
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW
from tests.tables.rows import assert_sound

HOUR = 3_600_000
SOON, LATER, FAR = NOW + 60_000, NOW + 120_000, NOW + HOUR + 1
HORIZON = {"DELAY_PARTITIONS": "1", "DELAY_HORIZON": "PT1H", "DELAY_DEDUPE_WINDOW": "PT10M"}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """One partition of one, with a horizon of an hour."""
    bench = Workbench(tmp_path / "bench.db", 0, **HORIZON)
    yield bench
    bench.assert_balanced()
    assert_sound(bench.store)
    bench.close()


def kept(id_: str, by: str, stamp: int = NOW) -> dict[str, str]:
    """Return the touch that says that the worker has an id now."""
    return {"delay-op": "schedule", "delay-id": id_, "delay-source": by, "delay-parked": str(stamp)}


# schedules -----------------------------------------------------------------------------------------------------------
def test_a_message_due_beyond_the_horizon_is_parked(bench: Workbench) -> None:
    asked = bench.schedule("a", FAR)

    assert bench.pending() == {}
    assert bench.told() == [("accepted", asked, None), ("parked", asked, None)]
    assert bench.events[1] == {"event": "parked", "id": "a", "at": NOW, "source": asked, "due": FAR, "to": "orders"}
    assert bench.cold() == [
        {
            "delay-id": "a",
            "delay-to": "orders",
            "delay-at": str(FAR),
            "delay-op": "schedule",
            "delay-source": asked,
            "delay-parked": str(NOW),
        }
    ]


def test_what_would_not_fit_into_the_request_that_brings_it_back_is_held(bench: Workbench) -> None:
    bench.limits.request = 10_000
    bench.open_again()
    for id_, size in (("a", 8_000), ("b", 9_000)):
        record = bench.log.record(delay_id=id_, delay_to="orders", delay_at=str(FAR))
        record.value = b"x" * size
        bench.run(record)
    bench.command("reschedule", "b", delay_at=str(FAR + 1))

    assert bench.pending() == {"b": FAR + 1}


def test_a_parked_message_is_the_message_as_it_is_with_all_that_it_asks_for(bench: Workbench) -> None:
    users = [("b", b"1"), ("a", b"\xff"), ("b", None), ("b", b"1")]
    record = bench.log.record(
        delay_to="orders",
        delay_after="PT2H",
        delay_to_partition="7",
        delay_max_late="1",
        delay_if_late="drop",
        delay_dedupe="2",
    )
    record.headers, record.key, record.value = [*users, *record.headers], None, b"\x00"
    bench.store.apply(Changes(), 1, 12, NOW)
    bench.run(record)

    (parked,) = bench.sends
    assert (parked.topic, parked.partition, parked.key, parked.value) == ("delay-cold", 0, None, b"\x00")
    assert parked.headers == [
        *users,
        ("delay-id", source(record).encode()),
        ("delay-to", b"orders"),
        ("delay-at", b"%d" % (NOW + 2 * HOUR)),
        ("delay-to-partition", b"7"),
        ("delay-max-late", b"1"),
        ("delay-if-late", b"drop"),
        ("delay-dedupe", b"2"),
        ("delay-op", b"schedule"),
        ("delay-source", source(record).encode()),
        ("delay-parked", b"%d" % NOW),
        ("delay-epoch", b"12"),
    ]


def test_a_cluster_and_a_callback_are_parked_too(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", 0, **HORIZON, DELAY_CALLBACKS="https://a/*")
    bench.schedule("a", FAR, delay_to_cluster="emea", delay_on_failure="https://a/b")

    assert bench.cold()[0].items() >= {("delay-to-cluster", "emea"), ("delay-on-failure", "https://a/b")}
    bench.close()


def test_a_message_due_at_the_horizon_stays(bench: Workbench) -> None:
    bench.schedule("a", NOW + HOUR)

    assert bench.pending() == {"a": NOW + HOUR}


def test_the_horizon_goes_by_the_brokers_time(bench: Workbench) -> None:
    bench.now_ms, bench.ahead_ms = NOW + HOUR, HOUR
    bench.ask(NOW, delay_to="orders", delay_at=str(FAR))

    assert bench.pending() == {}


@pytest.mark.parametrize(("late", "parked"), [(1, True), (60_000, True), (60_001, False)])
def test_a_record_is_judged_by_its_own_time_while_it_is_fresh(bench: Workbench, late: int, *, parked: bool) -> None:
    """So whoever reads it again after a crash parks it again."""
    bench.now_ms = NOW + late
    bench.ask(NOW, delay_to="orders", delay_at=str(FAR))

    assert (bench.pending() == {}) is parked


def test_a_record_from_the_future_is_judged_by_the_brokers_time(bench: Workbench) -> None:
    bench.ask(NOW + 50_000, delay_to="orders", delay_at=str(FAR))

    assert bench.pending() == {}


def test_a_parked_message_replaces_the_pending_one(bench: Workbench) -> None:
    first, second = bench.schedule("a", SOON), bench.schedule("a", FAR)

    assert bench.pending() == {}
    assert bench.told()[2:] == [("accepted", second, None), ("replaced", first, second), ("parked", second, None)]
    assert [headers["delay-source"] for headers in bench.cold()] == [first, second]


@pytest.mark.parametrize("sent", [True, False])
def test_a_parked_message_replaces_the_one_in_flight_as_its_outcome_allows(bench: Workbench, *, sent: bool) -> None:
    first = bench.schedule("a", NOW)
    row = bench.claim("a")
    second = bench.schedule("a", FAR)
    bench.run(bench.delivered(row) if sent else Unsent(row))

    ending = ("delivered", first, None) if sent else ("replaced", first, second)
    assert bench.told()[2:] == [("accepted", second, None), ("parked", second, None), ending]
    assert bench.pending() == {}
    assert bench.cold()[-1]["delay-source"] == second


def test_a_message_may_be_parked_and_come_near_in_one_step(bench: Workbench) -> None:
    record = bench.log.record
    bench.read(
        [
            record(delay_id="a", delay_to="orders", delay_at=str(FAR)),
            record(delay_id="a", delay_to="orders", delay_at=str(SOON)),
            record(delay_id="a", delay_to="orders", delay_at=str(FAR)),
        ]
    )

    assert bench.pending() == {}
    assert ["delay-to" in headers for headers in bench.cold()] == [True, False, True]


def test_a_message_that_a_remembered_cancel_ends_is_not_parked(bench: Workbench) -> None:
    by = source(bench.ask(NOW + 5, delay_op="cancel", delay_id="a"))
    bench.run(bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(FAR)))

    assert bench.told()[1:] == [("accepted", "delay-requests-2-9", None), ("cancelled", "delay-requests-2-9", by)]
    assert [headers["delay-op"] for headers in bench.cold()] == ["cancel"]


def test_a_delivered_message_is_not_parked(bench: Workbench) -> None:
    bench.schedule("a", FAR - 1)
    bench.run(bench.delivered(bench.claim("a")))
    bench.now_ms = NOW - 2  # by which it is due beyond the horizon
    again = bench.schedule("a", FAR - 1)

    assert bench.told()[-1] == ("duplicate", again, None)
    assert len(bench.cold()) == 1


def test_a_message_that_could_not_be_held_is_not_parked(bench: Workbench) -> None:
    bench.limits.row = 200
    bench.schedule("a", FAR, user="x" * 200)

    assert bench.events[-1]["reason"] == "too-large"
    assert b"max.message.bytes of delay-delays-changelog and delay-forwards and delay-cold" in (
        dict(bench.sends[0].headers)["delay-error"] or b""
    )
    assert bench.cold() == []


def test_the_tier_is_informed_about_an_id_that_stays_here(bench: Workbench) -> None:
    asked = bench.schedule("a", SOON)

    assert bench.pending() == {"a": SOON}
    assert bench.cold() == [kept("a", asked)]
    assert [(out.key, out.value) for out in bench.sends] == [(None, None)]
    assert bench.told() == [("accepted", asked, None), ("deferred", asked, None)]


def test_an_automatic_id_is_news_to_the_tier_and_is_not_told(bench: Workbench) -> None:
    bench.ask(delay_to="orders", delay_at=str(SOON))

    assert bench.cold() == []
    assert bench.store.cold_marks.count == 0


def test_the_tier_is_informed_about_an_automatic_id_that_an_earlier_life_may_have_parked(bench: Workbench) -> None:
    bench.now_ms = NOW + HOUR
    record = bench.ask(NOW, delay_to="orders", delay_at=str(FAR))

    assert bench.pending() == {source(record): FAR}
    assert bench.cold() == [kept(source(record), source(record))]


def test_much_that_is_parked_is_more_than_one_step(bench: Workbench) -> None:
    records = [bench.log.record(delay_to="orders", delay_at=str(FAR)) for _ in range(3)]
    for record in records:
        record.value = b"x" * 1_000
    step = Step(NOW)

    assert bench.ingest.apply(step, bench.ingest.read(step, records), bench.partitions_of, 2_000) == 2
    bench.apply(step)


# commands ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("op", "at"),
    [("cancel", {}), ("reschedule", {"delay-at": str(NOW + 5_000)}), ("deliver-now", {"delay-at": str(NOW)})],
)
@pytest.mark.parametrize("if_due", [None, "7"])
def test_a_command_for_an_id_that_is_not_pending_is_left_to_the_tier(
    bench: Workbench, op: str, at: dict[str, str], if_due: str | None
) -> None:
    said = {} if if_due is None else {"delay_if_due": if_due}
    by = bench.command(op, "a", delay_after="5000", **said)

    expected = {"delay-op": op, "delay-id": "a", **at, "delay-source": by, "delay-parked": str(NOW)}
    assert bench.cold() == [expected if if_due is None else expected | {"delay-if-due": if_due}]
    assert [(out.key, out.value) for out in bench.sends] == [(None, None)]
    assert bench.events == [{"event": "deferred", "id": "a", "at": NOW, "source": by, "by": by}]
    assert bench.store.commands.count == 1


def test_a_command_for_a_pending_message_is_not_sent_to_the_tier(bench: Workbench) -> None:
    bench.schedule("a", SOON)
    bench.command("reschedule", "a", delay_at=str(LATER))
    bench.command("deliver-now", "a")
    bench.command("cancel", "a")

    assert len(bench.cold()) == 1


def test_a_cancel_is_remembered_as_long_as_commands_to_the_tier(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "long.db", 0, **{**HORIZON, "DELAY_DEDUPE_WINDOW": "PT1H"})
    bench.command("cancel", "a")

    assert bench.store.commands.expired(NOW + HOUR - 1, 10) == []
    assert bench.store.cold_marks.expired(NOW + HOUR - 1, 10) == []
    assert bench.store.cold_marks.expired(NOW + HOUR, 10) == bench.store.commands.expired(NOW + HOUR, 10) == ["a"]
    bench.close()


def test_a_message_moved_beyond_the_horizon_is_parked_as_the_command_left_it(bench: Workbench) -> None:
    asked = bench.schedule("a", SOON, user="1")
    by = source(bench.ask(NOW - 5, delay_op="reschedule", delay_id="a", delay_at=str(FAR)))

    assert bench.pending() == {}
    assert bench.told()[2:] == [("rescheduled", asked, by), ("parked", asked, None)]
    assert bench.events[-1]["due"] == FAR
    assert bench.cold()[1] == {
        "user": "1",
        "delay-id": "a",
        "delay-to": "orders",
        "delay-at": str(FAR),
        "delay-op": "schedule",
        "delay-source": by,
        "delay-parked": str(NOW),
    }
    assert (bench.sends[-1].key, bench.sends[-1].value) == (b"k", b"v")


def test_a_message_moved_within_the_horizon_stays(bench: Workbench) -> None:
    bench.schedule("a", SOON)
    bench.command("reschedule", "a", delay_at=str(NOW + HOUR))

    assert bench.pending() == {"a": NOW + HOUR}
    assert len(bench.cold()) == 1


def test_the_tier_is_informed_about_a_moved_message_that_an_earlier_life_may_have_parked(bench: Workbench) -> None:
    bench.ask(delay_to="orders", delay_at=str(LATER))
    bench.now_ms = NOW + HOUR
    by = source(bench.ask(NOW, delay_op="reschedule", delay_id="delay-requests-0-0", delay_at=str(FAR)))

    assert bench.pending() == {"delay-requests-0-0": FAR}
    assert bench.cold() == [kept("delay-requests-0-0", by)]


# commands on messages in flight --------------------------------------------------------------------------------------
def test_an_unsent_message_that_is_moved_beyond_the_horizon_is_parked(bench: Workbench) -> None:
    asked = bench.schedule("a", NOW)
    row = bench.claim("a")
    by = bench.command("reschedule", "a", delay_at=str(FAR))
    assert len(bench.cold()) == 1
    bench.run(Unsent(row))

    assert bench.pending() == {}
    assert bench.told()[2:] == [("rescheduled", asked, by), ("parked", asked, None)]
    assert bench.cold()[1].items() >= {("delay-at", str(FAR)), ("delay-source", by), ("delay-to", "orders")}


def test_a_sent_message_is_not_parked(bench: Workbench) -> None:
    asked = bench.schedule("a", NOW)
    row = bench.claim("a")
    by = bench.command("reschedule", "a", delay_at=str(FAR))
    bench.run(bench.delivered(row))

    assert bench.told()[2:] == [("delivered", asked, None), ("conflict", asked, by)]
    assert len(bench.cold()) == 1


def test_only_where_the_last_command_leaves_it_it_is_parked(bench: Workbench) -> None:
    for id_ in ("cancelled", "near"):
        bench.schedule(id_, NOW)
    rows = [bench.claim(id_) for id_ in ("cancelled", "near")]
    for id_ in ("cancelled", "near"):
        bench.command("reschedule", id_, delay_at=str(FAR))
    bench.command("cancel", "cancelled")
    bench.command("reschedule", "near", delay_at=str(SOON))
    bench.run(*(Unsent(row) for row in rows))

    assert bench.pending() == {"near": SOON}
    assert [event for event, _, _ in bench.told()[4:]] == ["rescheduled", "cancelled", "rescheduled", "rescheduled"]
    assert len(bench.cold()) == 2


def test_a_replaced_message_is_not_parked_after_its_replacement(bench: Workbench) -> None:
    first = bench.schedule("a", NOW)
    row = bench.claim("a")
    moved = bench.command("reschedule", "a", delay_at=str(FAR))
    second = bench.schedule("a", FAR)
    bench.run(Unsent(row))

    assert bench.told()[4:] == [("rescheduled", first, moved), ("replaced", first, second)]
    assert bench.cold()[-1]["delay-source"] == second


# without a horizon ---------------------------------------------------------------------------------------------------
def test_without_a_horizon_no_message_is_parked_and_no_command_is_sent(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", DELAY_PARTITIONS="1")
    bench.schedule("a", NOW + 1_000 * HOUR)
    bench.command("reschedule", "a", delay_at=str(NOW + 2_000 * HOUR))
    bench.command("cancel", "b")

    assert bench.pending() == {"a": NOW + 2_000 * HOUR}
    assert bench.sends == []
    assert bench.store.cold_marks.count == 0
    bench.close()


def test_without_a_horizon_commands_still_reach_an_existing_cold_topic(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", DELAY_PARTITIONS="1")
    bench.limits.cold = True
    bench.open_again()
    asked = bench.schedule("a", NOW + 1_000 * HOUR)
    bench.command("reschedule", "a", delay_at=str(NOW + 2_000 * HOUR))
    by = bench.command("cancel", "b")

    assert bench.pending() == {"a": NOW + 2_000 * HOUR}
    assert [headers["delay-source"] for headers in bench.cold()] == [asked, by]
    assert [event for event, _, _ in bench.told()] == ["accepted", "deferred", "rescheduled", "deferred"]
    bench.close()
