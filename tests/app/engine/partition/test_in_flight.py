"""Claims, held rows and the cursor of a partition: every row is dealt with once, and none is passed over for good."""

from dataclasses import replace
from pathlib import Path

import msgspec

from app.engine.partition.in_flight import InFlight
from app.engine.steps.outcomes import Delivered, Unsent
from app.engine.steps.route import ANY, HTTP
from app.engine.steps.step import Step
from tables import Bound
from tables.entry import encode
from tests.tables.rows import NOW, entry, filled, key, put

FIRST, SECOND = (None, "orders", 0), ("other", "orders", 1)


def test_a_row_has_one_outcome_and_its_claim_lasts_until_that_is_committed() -> None:
    rows = InFlight()
    rows.claim(key(1), entry("a"), FIRST)
    rows.claim(key(2), entry("b"), FIRST)

    delivered = Delivered([key(1)], 8, "orders", 0, 5)
    assert rows.answered(replace(delivered, rows=[key(3), key(1)], offset=7)) == [delivered]
    assert not rows.answered(delivered)
    assert rows.answered(Unsent(key(2))) == [Unsent(key(2))]
    assert not rows.answered(Unsent(key(2)))
    assert set(rows.claims) == {key(1), key(2)}
    assert rows.busy(key(1)), "it is not fired again before its outcome is committed"
    rows.end([key(1)])
    assert set(rows.claims) == {key(2)}
    assert not rows.busy(key(1))


def test_rows_whose_route_is_blocked_take_no_room_from_the_others() -> None:
    rows = InFlight()
    for number, route in enumerate((FIRST, FIRST, SECOND, None)):
        rows.claim(key(number), entry(), route)

    assert rows.sending(lambda route: route == FIRST) == 2
    rows.end([key(0), key(1)])
    assert rows.sending(lambda _: False) == 2
    assert list(rows.routes) == [SECOND]


def test_the_cursor_goes_back_to_the_first_row_that_waits_for_a_route() -> None:
    rows = InFlight()
    for number in (5, 3, 9):
        rows.hold(key(number), entry(), FIRST)
    rows.move_on([(key(20), b"")])

    assert not rows.quiet
    assert rows.held_routes(http=False) == [FIRST]
    rows.go_back(FIRST)
    assert rows.cursor == key(3)
    assert rows.quiet


def test_a_message_without_a_key_waits_for_any_partition_of_its_topic() -> None:
    rows = InFlight()
    rows.hold(key(1), msgspec.structs.replace(entry(), key=None), FIRST)
    rows.hold(key(2), entry(), ("host", "", HTTP))

    assert rows.held_routes() == [(None, "orders", ANY), ("host", "", HTTP)]
    assert rows.held_routes(http=True) == [("host", "", HTTP)]
    assert rows.held_ms() == {"orders": 1, "": 2}


def test_a_row_that_a_step_takes_away_is_passed_over_until_that_is_committed() -> None:
    rows, step = InFlight(), Step(NOW)
    step.changes.remove(key(4), entry())
    rows.begin_step(step)

    assert rows.busy(key(4))
    assert not rows.busy(key(5))
    rows.move_on([(key(9), b"")])
    assert not rows.quiet
    rows.end_step()
    assert rows.cursor == key(4)
    assert not rows.busy(key(4))


def test_a_row_is_fired_as_the_step_leaves_it_that_notes_something_on_it() -> None:
    rows, step = InFlight(), Step(NOW)
    noted = msgspec.structs.replace(entry(), bound=Bound(NOW - 5))
    step.changes.rewrite(key(4), noted, encode(noted))
    rows.begin_step(step)

    assert not rows.busy(key(4)), "a later message would overtake it"
    assert rows.row(key(4), encode(entry())) == noted
    assert rows.row(key(5), encode(entry())) == entry()
    step.again[key(4)] = NOW + 9
    assert rows.busy(key(4)), "its next try is put off"


def test_the_cursor_goes_back_to_a_row_that_a_step_has_put() -> None:
    rows = InFlight()
    rows.move_on([(key(9), b"")])
    rows.begin_step(Step(NOW))
    rows.end_step(key(6))

    assert rows.cursor == key(6)


def put_before_the_cursor(rows: InFlight, *numbers: int) -> None:
    step = Step(NOW)
    for number in numbers:
        put(step.changes, key(number), entry())
    rows.begin_step(step)
    rows.end_step(min(step.changes.added))


def test_while_many_rows_are_in_flight_those_put_before_the_cursor_are_examined_one_by_one() -> None:
    rows = InFlight()
    for number in range(1_000, 1_101):
        rows.claim(key(number), entry(), FIRST)
    rows.move_on([(key(2_000), b"")])
    put_before_the_cursor(rows, 7, 5, 3_000)
    put_before_the_cursor(rows, 6)

    assert rows.cursor == key(2_000) + b"\0"
    assert not rows.quiet
    step = Step(NOW)
    step.changes.remove(key(5), entry())
    rows.begin_step(step)
    assert rows.pop_late(NOW, 1) == [key(6)], "a row that is about to be removed waits"
    rows.end_step()
    assert rows.pop_late(6, 9) == [key(5)]
    assert rows.pop_late(NOW, 9) == [key(7)]
    assert not rows.late


def test_the_cursor_goes_back_when_too_many_are_before_it() -> None:
    rows = InFlight()
    for number in range(20_000, 20_101):
        rows.claim(key(number), entry(), FIRST)
    rows.move_on([(key(20_100), b"")])
    put_before_the_cursor(rows, *range(2, 10_002))
    assert rows.cursor > key(20_100)
    put_before_the_cursor(rows, 15_000)

    assert rows.cursor == key(2)
    assert not rows.late


def test_the_oldest_row_is_one_that_no_outcome_has_settled(tmp_path: Path) -> None:
    store, rows = filled(tmp_path / "0.db", {key(number): entry(str(number)) for number in (1, 2, 3)}), InFlight()

    assert rows.oldest(store) == key(1)
    rows.move_on([(key(3), b"")])
    assert rows.oldest(store) is None
    rows.hold(key(2), entry("2"), FIRST)
    assert rows.oldest(store) == key(2)
    rows.claim(key(1), entry("1"), FIRST)
    assert rows.oldest(store) == key(1)
    rows.clear()
    assert rows.oldest(store) == key(1)
    store.close()
