"""A promoted message is accepted once, and only if the tier knew the last command for its id."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.steps.step import Step
from app.settings import retention
from punctual.contract import native, request
from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW, Log
from tests.tables.rows import assert_sound

MINUTE, HOUR = 60_000, 3_600_000
SOON, FAR, FARTHER = NOW + 60_000, NOW + 2 * HOUR, NOW + 3 * HOUR
HORIZON = {"DELAY_PARTITIONS": "1", "DELAY_HORIZON": "PT1H", "DELAY_DEDUPE_WINDOW": "PT10M"}
#: The source of a message that was parked long ago.
OLD = "delay-requests-0-77"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """One partition of one, with a horizon of an hour."""
    bench = Workbench(tmp_path / "bench.db", 0, **HORIZON)
    yield bench
    bench.assert_balanced()
    assert_sound(bench.store)
    bench.close()


def assert_ignored(bench: Workbench, promoted: str, *, touches: int, **said: str) -> None:
    """See that a promotion has had no effect."""
    event = {"event": "duplicate", "at": bench.now_ms, "source": promoted, "to": "orders", **said}
    assert bench.events[-1].items() >= event.items()
    assert len(bench.cold()) == touches


def assert_known(bench: Workbench, promoted: str) -> None:
    """Check that a promotion has had no effect, and that the tier was told to forget it."""
    assert bench.told()[-2:] == [("duplicate", promoted, None), ("deferred", promoted, None)]
    assert bench.cold()[-1].items() >= {"delay-op": "schedule", "delay-source": promoted}.items()
    assert "delay-to" not in bench.cold()[-1]


# accepted promotions -------------------------------------------------------------------------------------------------
def test_it_waits_as_a_message_of_its_own_and_the_tier_hears_that_it_is_here(bench: Workbench) -> None:
    promoted = bench.promote("a", FAR, OLD)

    assert bench.pending() == {"a": FAR}  # whatever the horizon
    assert bench.told() == [("accepted", promoted, None), ("deferred", promoted, None)]
    assert bench.cold() == [
        {"delay-op": "schedule", "delay-id": "a", "delay-source": promoted, "delay-parked": str(NOW)}
    ]
    ((_, entry),) = bench.store.rows()
    assert (entry.source, entry.headers, entry.value) == (promoted, [], b"v")


def test_it_is_taken_in_once(bench: Workbench) -> None:
    first = bench.promote("a", FAR, OLD)
    assert_known(bench, bench.promote("a", FAR, OLD))
    bench.run(bench.delivered(bench.claim("a")))
    assert_known(bench, bench.promote("a", SOON, OLD))

    assert bench.told()[0] == ("accepted", first, None)
    assert bench.pending() == {}


def test_a_message_may_come_back_directly_after_it_was_parked(bench: Workbench) -> None:
    asked = bench.schedule("a", FAR)
    bench.promote("a", FAR, asked)

    assert bench.pending() == {"a": FAR}


def test_a_message_that_a_command_has_changed_may_come_back_directly_afterwards(bench: Workbench) -> None:
    bench.schedule("a", FAR)
    by = bench.command("deliver-now", "a")
    bench.promote("a", NOW, by)

    assert bench.pending() == {"a": NOW}


def test_it_may_be_parked_again(bench: Workbench) -> None:
    bench.promote("a", FAR, OLD)
    by = bench.command("reschedule", "a", delay_at=str(FARTHER))
    assert bench.pending() == {}
    bench.promote("a", FARTHER, by)

    assert bench.pending() == {"a": FARTHER}


def test_what_another_partition_gets_goes_home(tmp_path: Path) -> None:
    asked = native.decode(
        Log("delay-requests", 1, 4).record(
            delay_id="a", delay_to="orders", delay_at="5", delay_source=OLD, delay_parked=f"{NOW},{NOW}"
        )
    )
    home = Workbench(tmp_path / "x.db", 0, **HORIZON)
    home.run(replace(home.forwards.record(), headers=[], value=request.encode(asked)))

    assert home.pending() == {"a": 5}
    home.close()


# refused promotions --------------------------------------------------------------------------------------------------
def test_a_promotion_based_on_a_snapshot_older_than_eight_minutes_is_refused(bench: Workbench) -> None:
    stale = bench.promote("a", FAR, OLD, snapshot=NOW - 8 * MINUTE - 1)

    assert_ignored(bench, stale, touches=0, reason="stale-promotion")
    assert bench.store.cold_marks.count == 0
    bench.promote("a", FAR, OLD, snapshot=NOW - 8 * MINUTE)
    assert bench.pending() == {"a": FAR}


def test_its_age_goes_by_the_brokers_time(bench: Workbench) -> None:
    bench.now_ms, bench.ahead_ms = NOW + HOUR, HOUR
    bench.run(
        bench.log.record(
            NOW, delay_id="a", delay_to="orders", delay_at="5", delay_source=OLD, delay_parked=f"{NOW},{NOW}"
        )
    )

    assert bench.pending() == {"a": 5}


def test_a_longer_dedupe_window_leaves_it_more_time(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", 0, **{**HORIZON, "DELAY_DEDUPE_WINDOW": "PT1H"})
    bench.promote("a", FAR, OLD, snapshot=NOW - 58 * MINUTE - 1)
    assert bench.pending() == {}
    bench.promote("a", FAR, OLD, snapshot=NOW - 58 * MINUTE)

    assert bench.pending() == {"a": FAR}
    bench.close()


@pytest.mark.parametrize("again", [False, True])
def test_a_promotion_whose_cancel_the_tier_did_not_know_is_cancelled(bench: Workbench, *, again: bool) -> None:
    bench.schedule("a", FAR)
    by = bench.command("cancel", "a")
    promoted = bench.promote("a", FAR, "delay-requests-0-0")

    assert bench.pending() == {}
    assert [event for event, source, _ in bench.told() if source == promoted] == ["accepted", "cancelled", "deferred"]
    assert bench.told()[-2] == ("cancelled", promoted, by)
    if again:
        assert_known(bench, bench.promote("a", FAR, "delay-requests-0-0"))


def test_a_cancel_on_condition_of_another_due_time_does_not_end_a_later_message(bench: Workbench) -> None:
    """The tier moves it first, and finds then that the cancel is for another time."""
    bench.schedule("a", FAR)
    moved = bench.command("reschedule", "a", delay_at=str(FARTHER))
    bench.command("cancel", "a", delay_if_due=str(FAR))
    assert_ignored(bench, bench.promote("a", FAR, "delay-requests-0-0"), touches=3)
    bench.now_ms += 10 * MINUTE
    bench.promote("a", FARTHER, moved)

    assert bench.pending() == {"a": FARTHER}


def test_a_cancel_that_is_not_the_latest_does_not_make_the_tier_forget_the_latest(bench: Workbench) -> None:
    bench.schedule("a", FAR)
    bench.command("cancel", "a")
    second = bench.schedule("a", FARTHER)
    assert_ignored(bench, bench.promote("a", FAR, "delay-requests-0-0"), touches=3)
    bench.promote("a", FARTHER, second)

    assert bench.pending() == {"a": FARTHER}


@pytest.mark.parametrize("op", ["reschedule", "deliver-now"])
def test_a_promotion_whose_reschedule_the_tier_did_not_know_waits_until_it_does(bench: Workbench, op: str) -> None:
    asked = bench.schedule("a", FAR)
    bench.command(op, "a", delay_at=str(SOON))

    assert_ignored(bench, bench.promote("a", FAR, asked), touches=2)
    assert bench.pending() == {}


def test_a_promotion_whose_replacement_the_tier_did_not_know_waits_until_it_does(bench: Workbench) -> None:
    first = bench.schedule("a", FAR)
    second = bench.schedule("a", FARTHER)
    assert_ignored(bench, bench.promote("a", FAR, first), touches=2)
    bench.promote("a", FARTHER, second)

    assert bench.pending() == {"a": FARTHER}


@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now"])
def test_a_command_older_than_the_parked_message_is_not_left_to_the_tier(bench: Workbench, op: str) -> None:
    """The tier follows the record that reached it last."""
    first = bench.schedule("a", FAR)
    at = {"delay_at": str(SOON)} if op == "reschedule" else {}
    bench.run(bench.from_elsewhere(9, NOW - 50, delay_op=op, delay_id="a", **at))

    assert bench.told()[-1] == ("stale", "delay-requests-2-9", "delay-requests-2-9")
    assert len(bench.cold()) == 1
    bench.promote("a", FAR, first)
    assert bench.pending() == {"a": FAR}


def test_a_cancel_that_the_tier_may_still_need_is_left_to_it(bench: Workbench) -> None:
    """The command is older than the one that moved the message, and newer than the message."""
    bench.run(bench.from_elsewhere(8, NOW - 60, delay_id="a", delay_to="orders", delay_at=str(FAR)))
    bench.command("reschedule", "a", delay_at=str(FARTHER))
    bench.run(bench.from_elsewhere(9, NOW - 50, delay_op="cancel", delay_id="a"))

    assert bench.told()[-1] == ("deferred", "delay-requests-2-9", "delay-requests-2-9")


def test_a_message_whose_replacement_was_cancelled_does_not_come_back(bench: Workbench) -> None:
    bench.run(bench.from_elsewhere(8, NOW - 60, delay_id="a", delay_to="orders", delay_at=str(FAR)))
    by = bench.command("cancel", "a", delay_if_due=str(SOON))
    bench.run(bench.from_elsewhere(9, NOW - 50, delay_id="a", delay_to="orders", delay_at=str(SOON)))
    assert bench.told()[-2][::2] == ("cancelled", by)
    bench.promote("a", FAR, by)

    assert bench.pending() == {}


def test_an_id_of_punctuals_own_is_older_than_all_that_names_it_after_it_was_parked_too(bench: Workbench) -> None:
    parked = source(bench.ask(delay_to="orders", delay_at=str(FAR)))
    bench.promote(parked, FAR, parked)
    bench.run(bench.from_elsewhere(9, NOW - 30, delay_op="cancel", delay_id=parked))

    assert bench.pending() == {}


def test_a_promoted_message_has_the_order_of_the_parked_one(bench: Workbench) -> None:
    """Not the order of the last record that the tier knows, because that record changed no message."""
    bench.run(bench.from_elsewhere(8, NOW - 60, delay_id="a", delay_to="orders", delay_at=str(FAR)))
    by = bench.command("cancel", "a", delay_if_due="7")
    bench.promote("a", FAR, by)
    bench.run(bench.from_elsewhere(9, NOW - 50, delay_op="cancel", delay_id="a"))

    assert bench.pending() == {}


def test_a_message_whose_replacement_was_delivered_does_not_come_back(bench: Workbench) -> None:
    bench.schedule("a", NOW)
    bench.run(bench.delivered(bench.claim("a")))

    assert_known(bench, bench.promote("a", FAR, OLD))


def test_what_stayed_after_all_when_it_was_read_again_does_not_come_back(bench: Workbench) -> None:
    """An earlier life had parked it, and died before anybody but the tier could know."""
    asked = bench.schedule("a", NOW)
    bench.run(bench.delivered(bench.claim("a")))

    assert_known(bench, bench.promote("a", FAR, asked))


def test_a_message_whose_replacement_is_pending_never_comes_back(bench: Workbench) -> None:
    bench.schedule("a", NOW + HOUR)
    bench.now_ms += 30 * MINUTE

    assert_known(bench, bench.promote("a", FAR, OLD))
    assert bench.pending() == {"a": NOW + HOUR}


def test_records_sent_to_the_tier_are_remembered_on_disk_and_in_the_changelog(bench: Workbench) -> None:
    first = bench.schedule("a", FAR)
    bench.schedule("a", FARTHER)
    bench.open_again()
    assert_ignored(bench, bench.promote("a", FAR, first), touches=2)
    changelog = list(bench.changelog)
    bench.store.wipe()
    bench.open()
    bench.store.replay(changelog, len(changelog), NOW)

    assert_ignored(bench, bench.promote("a", FAR, first), touches=2)


def test_it_is_remembered_within_the_step_too(bench: Workbench) -> None:
    record = bench.log.record
    bench.read(
        [
            record(delay_id="a", delay_to="orders", delay_at=str(FAR)),
            record(delay_op="reschedule", delay_id="a", delay_at=str(FARTHER)),
            record(
                delay_id="a",
                delay_to="orders",
                delay_at=str(FAR),
                delay_source="delay-requests-0-0",
                delay_parked=f"{NOW},{NOW}",
            ),
        ]
    )

    assert bench.pending() == {}


def test_it_is_forgotten_when_no_promotion_can_be_on_its_way_that_does_not_know_it(bench: Workbench) -> None:
    first = bench.schedule("a", FAR)
    bench.command("cancel", "a", delay_if_due="7")
    bench.now_ms += 10 * MINUTE - 1
    assert_ignored(bench, bench.promote("a", FAR, first), touches=2)
    bench.now_ms += 1
    bench.promote("a", FAR, first)

    assert bench.pending() == {"a": FAR}


# promotions that end here --------------------------------------------------------------------------------------------
def test_a_delivered_message_is_not_delivered_again_and_the_tier_is_informed(bench: Workbench) -> None:
    bench.schedule("a", NOW, delay_dedupe="PT2H")
    bench.run(bench.delivered(bench.claim("a")))
    bench.now_ms += HOUR
    duplicate = bench.promote("a", NOW, OLD)

    assert_known(bench, duplicate)
    assert bench.pending() == {}


def test_an_earlier_cancel_applies_by_the_order_of_the_parked_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that brings it back is younger than any cancel; an earlier version remembered cancels for longer."""
    monkeypatch.setattr(retention, "COMMAND_MEMORY_MS", HOUR)
    bench = Workbench(tmp_path / "x.db", 0, **HORIZON)
    by = source(bench.ask(NOW + 5, delay_op="cancel", delay_id="a"))
    source(bench.ask(NOW + 5, delay_op="cancel", delay_id="b"))
    bench.now_ms += 10 * MINUTE
    before = bench.promote("a", FAR, "delay-requests-2-9", stamp=NOW + 4)
    after = bench.promote("b", FAR, "delay-requests-2-9", stamp=NOW + 6)

    assert bench.pending() == {"b": FAR}
    assert bench.told()[2:] == [
        ("accepted", before, None),
        ("cancelled", before, by),
        ("deferred", before, None),
        ("accepted", after, None),
        ("deferred", after, None),
    ]
    bench.close()


def test_a_promotion_that_is_no_longer_allowed_is_a_dead_letter_and_the_tier_forgets_it(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", 0, **{**HORIZON, "DELAY_CALLBACKS": "https://a/*"})
    bench.partitions_of = lambda _: 0
    record = bench.ask(
        delay_id="a",
        delay_to="orders",
        delay_at="5",
        delay_on_failure="https://a/b",
        delay_source=OLD,
        delay_parked=f"{NOW},{NOW}",
        user="1",
    )
    refused = source(record)

    dead_letter, touch = bench.sends
    assert (dead_letter.topic, dead_letter.partition, dead_letter.key, dead_letter.value) == (
        "delay-dead-letters",
        0,
        b"k",
        b"v",
    )
    assert dead_letter.headers[:4] == [("user", b"1"), ("delay-id", b"a"), ("delay-to", b"orders"), ("delay-at", b"5")]
    assert dict(dead_letter.headers)["delay-source"] == refused.encode()
    assert "delay-parked" not in dict(dead_letter.headers), "sent again, it would be ignored"
    assert touch.topic == "delay-cold"
    assert bench.events == [
        {"event": "refused", "id": "a", "at": NOW, "source": refused, "reason": "unknown-topic"},
        {"event": "deferred", "id": "a", "at": NOW, "source": refused},
    ]
    ((_, waiting),) = bench.store.rows()
    assert waiting.url == "https://a/b"
    bench.close()


def test_a_destination_that_is_not_allowed_any_more_is_refused_too(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", 0, **{**HORIZON, "DELAY_DESTINATIONS": "payments"})
    bench.promote("a", FAR, OLD)

    assert [event["event"] for event in bench.events] == ["refused", "deferred"]
    assert bench.events[0]["reason"] == "not-allowed"
    bench.close()


@pytest.mark.parametrize(("id_", "made_by"), [("a", "late-0-7"), ("orders/a", "delay-requests-0-7")])
def test_a_promotion_is_allowed_by_the_rules_of_its_original_input(tmp_path: Path, id_: str, made_by: str) -> None:
    """By the last record about its id, or by its namespace: an operator may have moved it."""
    inputs = {"DELAY_INPUTS": "late=native", "DELAY_NAMESPACES": "late=orders"}
    allowed = {"DELAY_DESTINATIONS": "late:orders,payments"}
    bench = Workbench(tmp_path / "x.db", 0, **{**HORIZON, **inputs, **allowed})
    bench.promote(id_, FAR, made_by)
    assert bench.pending() == {id_: FAR}
    bench.promote("b", FAR, OLD)
    assert bench.events[-2]["reason"] == "not-allowed"
    bench.close()


def test_a_superseded_promotion_is_not_refused(bench: Workbench) -> None:
    first = bench.schedule("a", FAR)
    bench.schedule("a", FARTHER)
    bench.partitions_of = lambda _: 0

    assert_ignored(bench, bench.promote("a", FAR, first), touches=2)


# when the tier may forget it -----------------------------------------------------------------------------------------
def test_at_least_once_the_tier_forgets_it_only_when_it_is_in_the_changelog(bench: Workbench) -> None:
    """The records of a step come before the step: the tier must not forget a message if a crash undoes the step."""
    bench.pays = False
    bench.promote("a", FAR, OLD)
    assert (bench.pending(), bench.cold()) == ({"a": FAR}, [])
    bench.tier.settle_debts(step := Step(NOW))
    bench.apply(step)
    assert [headers["delay-id"] for headers in bench.cold()] == ["a"]
    assert bench.tier.owed == []


def test_an_uninformed_tier_sends_the_message_again_and_is_then_informed(bench: Workbench) -> None:
    bench.pays = False
    bench.promote("a", FAR, OLD)
    bench.open_again()
    bench.pays = True

    assert_known(bench, bench.promote("a", FAR, OLD))
    assert bench.pending() == {"a": FAR}


def test_the_tier_is_not_told_to_forget_a_newer_record(bench: Workbench) -> None:
    record = bench.log.record
    back = {"delay_source": OLD, "delay_parked": f"{NOW - 1},{NOW}"}
    bench.read(
        [
            record(delay_id="a", delay_to="orders", delay_at=str(FAR), **back),
            record(delay_op="reschedule", delay_id="a", delay_at=str(FARTHER)),
        ]
    )

    assert ["delay-to" in headers for headers in bench.cold()] == [True]


def test_with_exactly_once_the_tier_is_informed_in_the_same_step(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", 0, **HORIZON, DELAY_GUARANTEE="exactly_once")
    bench.pays = False
    bench.promote("a", FAR, OLD)

    assert [headers["delay-id"] for headers in bench.cold()] == ["a"]
    bench.close()


# without a cold topic ------------------------------------------------------------------------------------------------
def test_without_a_cold_topic_no_promotion_is_accepted(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", DELAY_PARTITIONS="1")
    forged = bench.promote("a", NOW, OLD)

    assert bench.told() == [("refused", forged, None)]
    assert dict(bench.sends[0].headers)["delay-reason"] == b"malformed"
    bench.close()


@pytest.mark.parametrize(
    "said", [{"delay_to": "x" * 40_000, "delay_at": "5"}, {"delay_to": "orders", "delay_after": "0"}]
)
def test_what_only_looks_as_if_the_tier_had_sent_it_is_refused_as_any_other(
    tmp_path: Path, said: dict[str, str]
) -> None:
    bench = Workbench(tmp_path / "x.db", 0, **HORIZON)
    bench.ask(-1, delay_id="a", delay_source=OLD, delay_parked="1,1", **said)
    assert [event["event"] for event in bench.events if event["event"] != "deferred"] in (["refused"], ["duplicate"])
    bench.ask(-1, delay_id="b", delay_source=OLD, delay_parked=f"{NOW},{NOW}", **said)

    assert next(event["event"] for event in bench.events if event["id"] == "b") == "refused"
    bench.close()


def test_a_promotion_before_a_crash_is_remembered_as_long_as_the_tier_may_repeat_it(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", 0, **HORIZON)
    bench.pays = False
    bench.promote("a", FAR, OLD)
    bench.open_again()  # before the tier was informed
    bench.command("deliver-now", "a")
    bench.run(bench.delivered(bench.claim("a")))
    bench.now_ms += 60 * MINUTE
    bench.pays = True
    again = bench.promote("a", FAR, OLD, snapshot=bench.now_ms)

    assert bench.pending() == {}
    assert ("duplicate", again, None) in bench.told()
    bench.close()
