"""A cancel that overtakes its request through another partition still holds (records.md#ordering)."""

import pytest

from tests.app.workbench import Workbench, source
from tests.punctual.contract.records import NOW

SOON = NOW + 60_000
MEMORY = 600_000


def test_a_cancel_applies_to_a_request_with_an_earlier_timestamp(bench: Workbench) -> None:
    by = source(bench.ask(NOW + 5, delay_op="cancel", delay_id="a"))
    bench.run(bench.from_elsewhere(9, NOW + 4, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {}
    assert bench.told()[1:] == [("accepted", "delay-requests-2-9", None), ("cancelled", "delay-requests-2-9", by)]


def test_it_does_not_apply_to_a_request_with_a_later_timestamp(bench: Workbench) -> None:
    bench.ask(NOW + 5, delay_op="cancel", delay_id="a")
    bench.run(bench.from_elsewhere(9, NOW + 6, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {"a": SOON}


def test_on_one_way_the_offset_decides_whatever_the_clocks_say(bench: Workbench) -> None:
    bench.run(bench.from_elsewhere(9, NOW, delay_op="cancel", delay_id="a"))
    bench.run(bench.from_elsewhere(10, NOW - 50, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {"a": SOON}


def test_it_is_remembered_within_the_step_too(bench: Workbench) -> None:
    bench.run(
        bench.log.record(NOW + 5, delay_op="cancel", delay_id="a"),
        bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(SOON)),
    )

    assert bench.pending() == {}


def test_it_is_remembered_by_the_disk(bench: Workbench) -> None:
    bench.ask(NOW + 5, delay_op="cancel", delay_id="a")
    bench.close()
    bench.open()
    bench.run(bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {}


def test_it_is_forgotten_after_its_time(bench: Workbench) -> None:
    bench.ask(NOW + 5, delay_op="cancel", delay_id="a")
    bench.now_ms = NOW + MEMORY
    bench.run(bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {"a": SOON}
    assert bench.store.commands.expired(NOW + MEMORY - 1, 10) == []
    assert bench.store.commands.expired(NOW + MEMORY, 10) == ["a"]


@pytest.mark.parametrize("then", [-3_600_000, 3_600_000])
def test_it_is_remembered_for_its_time_also_when_the_clock_jumps_and_back(bench: Workbench, then: int) -> None:
    bench.now_ms, bench.ahead_ms = NOW + then, then
    bench.ask(NOW + 5, delay_op="cancel", delay_id="a")
    bench.now_ms, bench.ahead_ms = NOW + MEMORY - 1, 0
    bench.run(bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {}
    assert bench.store.commands.expired(NOW + MEMORY - 1, 10) == []
    assert bench.store.commands.expired(NOW + MEMORY, 10) == ["a"]


def test_other_commands_are_remembered_too(bench: Workbench) -> None:
    by = source(bench.ask(NOW + 5, delay_op="deliver-now", delay_id="a"))
    bench.run(bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {"a": NOW + 5}
    assert bench.told()[1:] == [("accepted", "delay-requests-2-9", None), ("rescheduled", "delay-requests-2-9", by)]


def test_a_cancel_that_expects_a_due_time_holds_only_for_that(bench: Workbench) -> None:
    by = source(bench.ask(NOW + 5, delay_op="cancel", delay_id="a", delay_if_due=str(SOON)))
    bench.run(bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(SOON + 1)))

    assert bench.pending() == {"a": SOON + 1}
    assert bench.told()[1:] == [("accepted", "delay-requests-2-9", None), ("conflict", "delay-requests-2-9", by)]


def test_a_cancel_that_expects_the_due_time_which_the_request_brings_applies(bench: Workbench) -> None:
    bench.ask(NOW + 5, delay_op="cancel", delay_id="a", delay_if_due=str(SOON))
    bench.run(bench.from_elsewhere(9, NOW, delay_id="a", delay_to="orders", delay_at=str(SOON)))

    assert bench.pending() == {}
    assert bench.events[-1]["event"] == "cancelled"
