"""How many rows a worker has on their way, and how partitions share them."""

import itertools

import pytest

from app.due.window import LEAST, LEAST_OF_A_PARTITION, Window
from app.partition.in_flight import InFlight
from tests.tables.rows import entry

MOST = 2_000
ROUTE = (None, "orders", 0)
_NUMBERS = itertools.count()


def parts(count: int, *, behind: bool = False) -> list[InFlight]:
    made = [InFlight() for _ in range(count)]
    for part in made:
        part.full = behind
    return made


def hand_out(window: Window, part: InFlight, rows: int) -> None:
    with window.handing_out(part):
        for number in itertools.islice(_NUMBERS, rows):
            part.claim(b"%d" % number, entry(), ROUTE)


def take_back(part: InFlight) -> None:
    part.end(list(part.claims))


def window(*, unlimited: bool = False, blocked: bool = False) -> Window:
    return Window(lambda _: blocked, unlimited=unlimited)


def fill(of: Window, among: list[InFlight], now: float) -> list[int]:
    """Go through a cycle in which all have more than they get; return what each has afterwards."""
    of.begin(among, now)
    for part in among:
        room = of.room(part, MOST)
        hand_out(of, part, room)
        part.full = True
    return [len(part.claims) for part in among]


def test_one_partition_alone_has_all() -> None:
    assert fill(window(), parts(1), 0.0) == [LEAST]


def test_partitions_that_are_behind_share_what_there_is() -> None:
    assert fill(window(), parts(2, behind=True), 0.0) == [LEAST // 2] * 2


def test_many_partitions_take_turns_with_what_is_worth_a_step() -> None:
    it, among = window(), parts(8, behind=True)

    assert fill(it, among, 0.0) == [LEAST_OF_A_PARTITION] * 2 + [0] * 6
    for part in among:
        take_back(part)
    among.reverse()
    assert fill(it, among, 0.01) == [LEAST_OF_A_PARTITION] * 2 + [0] * 6


def test_a_few_rows_wait_until_there_is_room_for_more() -> None:
    it, [part] = window(), parts(1)
    fill(it, [part], 0.0)

    part.end(list(part.claims)[: LEAST // 2 - 1])
    assert fill(it, [part], 0.01) == [LEAST // 2 + 1]
    part.end(list(part.claims)[:1])
    assert fill(it, [part], 0.02) == [LEAST]


def test_no_partition_gets_more_than_it_may_have() -> None:
    it, [part] = window(), parts(1)
    it.begin([part], 0.0)

    assert it.room(part, 3) == 3


def test_what_is_on_a_blocked_route_takes_no_room() -> None:
    it, among = window(blocked=True), parts(2, behind=True)
    fill(it, among, 0.0)
    it.begin(among, 0.01)

    assert [it.room(part, MOST) for part in among] == [LEAST // 2] * 2


def test_nobody_waits_for_partitions_that_are_stuck() -> None:
    it, among = window(), parts(3, behind=True)
    assert fill(it, among, 0.0) == [500, 500, 0]

    it.begin(among, 0.2)
    assert it.room(among[2], MOST) == 0
    it.begin(among, 0.3)
    assert [it.room(part, MOST) for part in among] == [0, 0, 500]


def test_exactly_once_partitions_go_by_their_own_bounds() -> None:
    assert fill(window(unlimited=True), parts(2), 0.0) == [MOST, MOST]


@pytest.mark.parametrize(
    ("answer_s", "per_s", "rows"),
    [
        (0.001, 50_000, LEAST),  # nine times what goes while an answer comes is less than the least
        (0.02, 50_000, 9_000),
        (0.02, 1_000, LEAST),
    ],
)
def test_slow_answers_have_more_on_their_way_as_far_as_they_bring_more(answer_s: float, per_s: int, rows: int) -> None:
    it, [part] = window(), parts(1)
    it.begin([part], 0.0)
    for beat in range(1, 6):
        it.answered(None, 10 * answer_s)
        it.answered(None, answer_s)
        hand_out(it, part, per_s // 10)
        take_back(part)
        it.begin([part], beat / 10)

    assert it.rows == pytest.approx(rows, abs=1)


def test_of_several_clusters_the_slowest_counts_for_as_long_as_it_is_heard_of() -> None:
    it, [part] = window(), parts(1)
    it.begin([part], 0.0)
    it.answered("far", 0.02)
    for beat in range(1, 201):
        it.answered(None, 0.001)
        hand_out(it, part, 2_000)
        take_back(part)
        it.begin([part], beat / 20)
        if beat == 20:
            assert it.rows == pytest.approx(7_200, abs=1)

    assert it.rows == LEAST
