"""Rows that wait for their next try."""

from hypothesis import given
from hypothesis import strategies as st

from app.engine.partition.next_tries import NextTries


def test_rows_come_when_their_time_has_come_in_its_order() -> None:
    tries = NextTries()
    tries.change({b"b": 20, b"a": 30, b"c": 10}, ())
    assert (len(tries), tries.oldest, tries.next_ms) == (3, b"a", 10)
    assert tries.take_due(9, 10) == []
    assert tries.take_due(25, 1) == [b"c"]
    assert tries.take_due(25, 10) == [b"b"]
    assert tries.take_due(30, 10) == [b"a"]
    assert not tries
    assert tries.next_ms is None


def test_a_removed_row_no_longer_waits_and_a_postponed_row_waits_longer() -> None:
    tries = NextTries()
    tries.change({b"a": 10, b"b": 10}, ())
    tries.change({b"b": 20}, (b"a",))
    tries.change({b"c": 10}, (b"c",))  # by one and the same step
    assert tries.take_due(10, 10) == []
    assert len(tries) == 1
    assert tries.take_due(20, 10) == [b"b"]


def test_a_row_that_is_found_again_waits_once() -> None:
    tries = NextTries()
    for _ in range(3):
        tries.wait(b"a", 10)
    assert tries.take_due(10, 10) == [b"a"]
    assert tries.take_due(10, 10) == []
    tries.wait(b"a", 10)
    tries.clear()
    assert not tries


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(-1, 20))))
def test_it_is_a_dictionary_that_is_emptied_by_time(acts: list[tuple[bytes, int]]) -> None:
    tries, waiting, found = NextTries(), dict[bytes, int](), list[bytes]()
    for row, at in acts:
        if at < 0:
            tries.change({}, (row,))
            waiting.pop(row, None)
        else:
            tries.wait(row, at)
            waiting[row] = at
        assert len(tries) == len(waiting)
        assert not waiting or tries.oldest == min(waiting)
    for now in range(21):
        found = tries.take_due(now, 100)
        assert sorted(found) == sorted(row for row, at in waiting.items() if at == now)
