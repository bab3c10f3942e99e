"""The bound of a debounce: the maximum delay after the first request of a life (records.md#debounce)."""

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.engine.steps.outcomes import Dropped, Rejected, Unsent
from punctual.contract.request import Reason
from tables import Bound, RecordStamp
from tests.app.workbench import Workbench
from tests.harness.fuzz import share
from tests.punctual.contract.records import NOW

#: How far each request pushes the message back, and the bound.
BACK, WITHIN = 60_000, 100_000


def ask(bench: Workbench, stamp: int, **said: str) -> str:
    """Have a request of partition 1 arrive now that was made at `stamp`; return its source."""
    return bench.late(1, stamp, **{"delay_id": "a", "delay_to": "orders", "delay_at": str(stamp + BACK), **said})


def bound(bench: Workbench) -> Bound | None:
    (row,) = [row for row, entry in bench.store.rows() if entry.id == "a"]
    entry = bench.store.entry(row)
    assert entry is not None
    return entry.bound


def last(bench: Workbench) -> tuple[str, int | None, str | None]:
    """Return kind, due time and reason of the last event."""
    event = bench.events[-1]
    return event["event"], event.get("due"), event.get("reason")


# one after the other -------------------------------------------------------------------------------------------------
def test_a_message_that_is_replaced_again_and_again_is_due_within_its_bound_with_the_last_payload(
    bench: Workbench,
) -> None:
    for n in range(10):
        source = ask(bench, NOW + 10_000 * n, delay_no_later="PT1M40S", n=str(n))
        assert bench.pending() == {"a": NOW + min(10_000 * n + BACK, WITHIN)}

    assert [bench.events[0].get("reason"), bench.events[-2]["reason"]] == [None, "no-later"]
    (entry,) = [entry for _, entry in bench.store.rows()]
    assert (entry.source, entry.headers) == (source, [("n", b"9")])
    bench.assert_balanced()


def test_a_due_time_beyond_the_bound_is_the_bound_from_the_start(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later="1000")

    assert bench.pending() == {"a": NOW + 1_000}
    assert last(bench) == ("accepted", NOW + 1_000, "no-later")


def test_a_request_without_a_bound_keeps_the_existing_one_and_a_new_bound_replaces_it(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    ask(bench, NOW + 90_000)
    assert bench.pending() == {"a": NOW + WITHIN}
    ask(bench, NOW + 91_000, delay_no_later="200000")
    assert bench.pending() == {"a": NOW + 91_000 + BACK}
    ask(bench, NOW + 92_000, delay_no_later="95000")
    assert bench.pending() == {"a": NOW + 95_000}


def test_a_bound_counts_from_a_first_request_that_asked_for_none(bench: Workbench) -> None:
    ask(bench, NOW)
    ask(bench, NOW + 50_000, delay_no_later=str(WITHIN))

    assert bench.pending() == {"a": NOW + WITHIN}


def test_what_moves_a_message_moves_it_within_its_bound(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    bench.late(1, NOW + 10**8, delay_op="reschedule", delay_id="a", delay_at=str(NOW + 10**9))

    assert bench.pending() == {"a": NOW + WITHIN}
    assert last(bench) == ("rescheduled", NOW + WITHIN, "no-later")


def test_a_condition_is_on_the_due_time_that_it_really_has(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later="1000")
    bench.late(1, NOW + 1, delay_op="cancel", delay_id="a", delay_if_due=str(NOW + BACK))
    assert last(bench)[0] == "conflict"
    bench.late(1, NOW + 2, delay_op="cancel", delay_id="a", delay_if_due=str(NOW + 1_000))
    assert last(bench)[0] == "cancelled"


def test_a_bound_that_is_over_when_a_request_comes_makes_it_due_at_once(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    ask(bench, NOW + 2 * WITHIN, delay_no_later=str(WITHIN))

    assert bench.pending() == {"a": NOW + WITHIN}


def test_without_a_bound_the_event_does_not_mention_one(bench: Workbench) -> None:
    ask(bench, NOW, delay_id="b")
    (row,) = [row for row, _ in bench.store.rows()]

    assert bench.store.entry(row).bound is None  # type: ignore[union-attr]


# where a life ends ---------------------------------------------------------------------------------------------------
def test_a_new_message_starts_a_new_bound(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    bench.late(1, NOW + 1_000, delay_op="cancel", delay_id="a")
    ask(bench, NOW + 2_000, delay_at=str(NOW + 10**9), delay_no_later=str(WITHIN))
    assert bench.pending() == {"a": NOW + 2_000 + WITHIN}
    bench.run(bench.delivered(bench.claim("a")))
    ask(bench, NOW + 3_000, delay_at=str(NOW + 10**9), delay_no_later=str(WITHIN))
    assert bench.pending() == {"a": NOW + 3_000 + WITHIN}
    bench.run(Dropped(bench.claim("a"), 1))
    ask(bench, NOW + 4_000, delay_at=str(NOW + 10**9), delay_no_later=str(WITHIN))
    assert bench.pending() == {"a": NOW + 4_000 + WITHIN}
    bench.run(Rejected(bench.claim("a"), Reason.UNDELIVERABLE, "Nobody took it."))
    ask(bench, NOW + 5_000, delay_at=str(NOW + 10**9), delay_no_later=str(WITHIN))
    assert bench.pending() == {"a": NOW + 5_000 + WITHIN}


def test_a_request_older_than_the_cancel_that_ended_its_life_does_not_count(bench: Workbench) -> None:
    ask(bench, NOW + 2_000, delay_no_later=str(WITHIN), delay_at=str(NOW + 10**9))
    bench.run(bench.delivered(bench.claim("a")))
    ask(bench, NOW + 9_000, delay_no_later=str(WITHIN), delay_at=str(NOW + 10**9))
    ask(bench, NOW + 1_000)

    assert bench.pending() == {"a": NOW + 9_000 + WITHIN}


# while it is being sent ----------------------------------------------------------------------------------------------
def test_a_replacement_of_a_message_in_flight_starts_a_new_bound(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    row = bench.claim("a")
    ask(bench, NOW + 99_000, delay_no_later=str(WITHIN))
    bench.run(bench.delivered(row))

    assert bench.pending() == {"a": NOW + 99_000 + BACK}
    bench.assert_balanced()


def test_what_replaces_a_message_that_was_not_sent_after_all_takes_its_bound_over(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    row = bench.claim("a")
    ask(bench, NOW + 99_000)
    assert bench.pending() == {"a": NOW + 99_000 + BACK}
    bench.run(Unsent(row))

    assert bench.pending() == {"a": NOW + WITHIN}
    assert last(bench) == ("rescheduled", NOW + WITHIN, "no-later")
    bench.assert_balanced()


def test_a_message_that_is_in_flight_when_the_bound_ends_stays_where_it_is(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    first = bench.claim("a")
    ask(bench, NOW + 99_000)
    second = bench.claim("a")
    bench.run(Unsent(first))

    assert bench.claims[second].bound == Bound(NOW, WITHIN, RecordStamp(NOW, "delay-requests-1-0"))
    ask(bench, NOW + 99_500)
    bench.run(Unsent(second))
    assert bench.pending() == {"a": NOW + WITHIN}
    bench.assert_balanced()


def three(bench: Workbench, **last: str) -> tuple[bytes, bytes]:
    """Take in one request after the other, with the first two in flight; return their rows."""
    ask(bench, NOW, delay_no_later=str(WITHIN))
    first = bench.claim("a")
    ask(bench, NOW + 99_000)
    second = bench.claim("a")
    ask(bench, NOW + 99_500, **last)
    return first, second


def test_a_bound_does_not_outlive_a_delivery_in_between(bench: Workbench) -> None:
    first, second = three(bench, delay_no_later=str(WITHIN))
    bench.run(bench.delivered(second), Unsent(first))

    assert bench.pending() == {"a": NOW + 99_500 + BACK}
    bench.assert_balanced()


def test_a_bound_passes_from_an_unsent_message_to_the_next(bench: Workbench) -> None:
    first, second = three(bench)
    bench.run(Unsent(first))
    assert bench.pending() == {"a": NOW + 99_500 + BACK}
    bench.run(Unsent(second))

    assert bench.pending() == {"a": NOW + WITHIN}
    bench.assert_balanced()


def test_a_bound_passes_to_a_message_in_flight_of_an_ended_process(bench: Workbench) -> None:
    first, second = three(bench, delay_no_later=str(WITHIN))
    bench.claims.clear()
    bench.claim_row(first)
    bench.run(Unsent(first))
    assert bench.pending() == {"a": NOW + 99_500 + BACK}
    bench.claim_row(second)
    bench.run(Unsent(second))

    assert bench.pending() == {"a": NOW + WITHIN}
    bench.assert_balanced()


def test_a_reschedule_of_a_message_that_was_not_sent_stays_within_the_bound(bench: Workbench) -> None:
    ask(bench, NOW, delay_no_later=str(WITHIN))
    row = bench.claim("a")
    bench.late(1, NOW + 1, delay_op="reschedule", delay_id="a", delay_at=str(NOW + 10**9))
    bench.run(Unsent(row))

    assert bench.pending() == {"a": NOW + WITHIN}
    found = bound(bench)
    assert found is not None
    assert found.asked_ms == NOW + 10**9


# whatever order they come in -----------------------------------------------------------------------------------------
ORDERS = (
    {"delay_at": str(NOW + 500), "delay_no_later": "400"},
    {"delay_at": str(NOW + 200)},
    {"delay_at": str(NOW + 10_000), "delay_no_later": "3000"},
    {"delay_op": "reschedule", "delay_at": str(NOW + 90_000)},
)


def test_the_same_comes_of_requests_in_whatever_order_they_come(tmp_path: Path) -> None:
    found = set()
    for place, way in enumerate(itertools.permutations(range(4))):
        bench = Workbench(tmp_path / f"{place}.db", 0, DELAY_PARTITIONS="1")
        for n in way:
            said = {"delay_id": "a", **({} if "delay_op" in ORDERS[n] else {"delay_to": "orders"}), **ORDERS[n]}
            bench.late(n + 1, NOW + 100 * n, **said)
        ((row, entry),) = bench.store.rows()
        found.add((row[:8], entry.bound, entry.source))
        bench.assert_balanced()
        bench.close()

    assert len(found) == 1
    ((due, kept, source),) = found
    assert int.from_bytes(due, "big") == NOW + 3_000
    assert kept == Bound(NOW, 3_000, RecordStamp(NOW + 200, "delay-requests-3-0"), NOW + 90_000)
    assert source == "delay-requests-3-0"


SPANS = st.none() | st.integers(0, 400)
REQUESTS = st.lists(st.tuples(st.sampled_from(["schedule", "schedule", "reschedule"]), st.integers(0, 600), SPANS))


@settings(max_examples=share(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), orders=REQUESTS.filter(lambda all_: 0 < len(all_) < 7))
def test_bounds_follow_the_rule_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, orders: list[tuple[str, int, int | None]]
) -> None:
    orders[0] = ("schedule", *orders[0][1:])
    way = data.draw(st.permutations(range(len(orders))))
    bench = Workbench(tmp_path_factory.mktemp("bounds") / "x.db", 0, DELAY_PARTITIONS="1")
    for n in way:
        op, after, within = orders[n]
        said = {"delay_id": "a", "delay_at": str(NOW + 10 * n + after)}
        if op == "schedule":
            said |= {"delay_to": "orders"} | ({} if within is None else {"delay_no_later": str(within)})
        else:
            said |= {"delay_op": op}
        bench.late(n + 1, NOW + 10 * n, **said)

    last_within = next((w for op, _, w in reversed(orders) if op == "schedule" and w is not None), None)
    asked = NOW + 10 * (len(orders) - 1) + orders[-1][1]
    assert bench.pending() == {"a": asked if last_within is None else min(asked, NOW + last_within)}
    bench.assert_balanced()
    bench.close()


def test_a_late_request_that_shows_an_earlier_begin_moves_the_message(bench: Workbench) -> None:
    newer = ask(bench, NOW + 90_000, delay_no_later=str(WITHIN))
    older = bench.late(2, NOW, delay_id="a", delay_to="orders", delay_at=str(NOW))

    assert bench.pending() == {"a": NOW + WITHIN}
    event = bench.events[-1]
    assert (event["event"], event["source"], event["by"], event["reason"]) == ("rescheduled", newer, older, "no-later")
    bench.assert_balanced()


# repeated ------------------------------------------------------------------------------------------------------------
def test_a_delivered_request_is_known_again_by_the_due_time_that_it_asked_for(bench: Workbench) -> None:
    said = {"delay_at": str(NOW + 10**6), "delay_no_later": "1000", "delay_dedupe": "PT1M"}
    ask(bench, NOW, **said)
    bench.run(bench.delivered(bench.claim("a")))
    ask(bench, NOW + 5_000, **said)

    assert (bench.pending(), last(bench)[0]) == ({}, "duplicate")


def test_a_delivered_request_is_new_again_after_its_dedupe_window(bench: Workbench) -> None:
    said = {"delay_dedupe": "PT1M"}
    bench.schedule("a", NOW, **said)
    bench.run(bench.delivered(bench.claim("a")))
    bench.now_ms += 59_000
    bench.schedule("a", NOW, **said)
    assert (bench.pending(), last(bench)[0]) == ({}, "duplicate")
    bench.now_ms += 2_000
    bench.schedule("a", NOW, **said)

    assert (bench.pending(), last(bench)[0]) == ({"a": NOW}, "accepted")


def test_the_bound_of_a_parked_message_goes_and_comes_back_with_it(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "x.db", 0, DELAY_PARTITIONS="1", DELAY_HORIZON="PT1H", DELAY_DEDUPE_WINDOW="PT10M")
    made_by = bench.schedule("a", NOW + 10**9, delay_no_later="P1D")
    (parked,) = bench.cold()
    assert parked["delay-at"] == str(NOW + 86_400_000)
    assert (parked["delay-no-later"], parked["delay-first"]) == ("86400000", str(NOW))

    bench.now_ms = NOW + 86_000_000
    said = {"delay_source": made_by, "delay_parked": f"{NOW},{bench.now_ms}"}
    bench.schedule("a", NOW + 86_400_000, delay_no_later="86400000", delay_first=str(NOW), **said)
    bench.schedule("a", NOW + 10**9, delay_no_later="P1D")
    assert bench.pending() == {"a": NOW + 86_400_000}
    bench.close()
