"""Turns are told apart by due times, and a look is judged by the turn alone of its own round."""

from benchmarks.experiments.look import ALONE, FIND, HOME, TURNS, by_turn, lateness
from benchmarks.tally import Delivery


def test_a_message_counts_for_the_turn_in_which_it_was_due_but_for_its_beginning() -> None:
    due = (9_999, 10_000, 11_999, 12_000, 19_999, 21_500, 22_000, 30_000)
    found = [Delivery(f"m-{number}", at, at + number) for number, at in enumerate(due)]
    assert by_turn(found, [10_000, 20_000, 30_000]) == [[3, 4], [6]]


def test_the_ratio_of_a_round_is_that_to_its_own_turn_alone() -> None:
    late = {ALONE: (10, 100), HOME: (20, 110), FIND: (10, 50)}
    turns = [[late[kind][number]] * 50 for number in (0, 1) for kind in TURNS]
    figures = lateness([*TURNS, *TURNS], turns)
    assert (figures["ratio_home"], figures["ratio_home_least"], figures["ratio_home_most"]) == (1.55, 1.1, 2.0)
    assert (figures["ratio_find_least"], figures["ratio_find_most"]) == (0.5, 1.0)
    assert (figures["late_alone_p50_ms"], figures["late_alone_p99_ms"]) == (100, 100)
