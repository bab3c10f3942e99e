"""Rounds are distinguished by due times; looks are compared with the rounds around them, at a sustainable rate."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from benchmarks import topics
from benchmarks.errors import TooSlow
from benchmarks.experiments.look import ALONE, FIND, HOME, by_turn, capacity, lateness, turns
from benchmarks.plan import Plan
from benchmarks.sizes import SMOKE
from benchmarks.tally import Delivery


def test_a_message_counts_for_the_turn_in_which_it_was_due_but_for_its_beginning() -> None:
    due = (9_999, 10_000, 11_999, 12_000, 19_999, 21_500, 22_000, 30_000)
    found = [Delivery(f"m-{number}", at, at + number) for number, at in enumerate(due)]
    assert by_turn(found, [10_000, 20_000, 30_000]) == [[3, 4], [6]]


def test_each_look_has_a_round_without_one_before_and_after_it() -> None:
    assert turns(2) == [ALONE, HOME, ALONE, FIND, ALONE, HOME, ALONE, FIND, ALONE]


def test_all_looks_are_compared_with_all_rounds_and_each_with_those_around_it() -> None:
    slots = turns(2)
    late = [10, 30, 20, 20, 60, 60, 20, 10, 20]
    figures = lateness(slots, [[ms] * 50 for ms in late])
    assert (figures["ratio_home"], figures["ratio_home_least"], figures["ratio_home_most"]) == (1.0, 1.5, 2.0)
    assert (figures["ratio_home_median"], figures["ratio_find_median"]) == (1.75, 0.5)
    assert (figures["ratio_find"], figures["ratio_find_least"], figures["ratio_find_most"]) == (20 / 60, 0.5, 0.5)
    assert (figures["late_alone_p50_ms"], figures["late_alone_p99_ms"]) == (20, 60)
    assert figures["grown_ms"] == 10


@dataclass
class Came:
    """A message at the destination."""

    due_ms: int
    late_ms: int

    def timestamp(self) -> tuple[int, int]:
        return 0, self.due_ms + self.late_ms

    def headers(self) -> list[tuple[str, bytes]]:
        return [("delay-due", b"%d" % self.due_ms)]


class Here:
    """An installation with a maximum rate, which is lower over a long time."""

    bootstrap = out = ""

    def __init__(self, briefly: int, for_long: int) -> None:
        self.most = {6: briefly, 3: for_long}
        self.asked: list[tuple[float, int]] = []
        self.came: list[Came] = []

    def plan(self, _name: str, count: int, base_ms: int, **more: Any) -> Plan:
        return Plan(name="x", to="", count=count, base_ms=base_ms, **more)

    def send(self, plan: Plan) -> None:
        rate = 1_000_000 // plan.step_us
        seconds = round(plan.count / rate)
        self.asked.append((seconds, rate))
        due_ms = plan.last_due_ms
        late_ms = 1_000 if rate > self.most[seconds] else 5
        self.came = [Came(due_ms, late_ms if number < 10 else 5) for number in range(100)]

    def wait_settled(self) -> None:
        pass


def _at_destination(monkeypatch: pytest.MonkeyPatch, here: Here) -> None:
    monkeypatch.setattr(topics, "ends", lambda *_: {0: 7})
    monkeypatch.setattr(topics, "read", lambda _bootstrap, _topic, start: here.came if start == {0: 7} else [])


_SIZES = replace(SMOKE, looking_rates=(100, 200, 250, 500), looking_try_s=6, looking_hold_s=3)


def test_a_rate_that_is_kept_up_only_briefly_is_not_a_workers_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here(250, 170)
    _at_destination(monkeypatch, here)
    assert capacity(here, _SIZES) == 200  # type: ignore[arg-type]
    assert here.asked == [(3, 100), (6, 100), (6, 200), (6, 250), (6, 500), (3, 200), (3, 160)]


def test_a_worker_that_accepts_no_messages_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Here(50, 50)
    _at_destination(monkeypatch, here)
    with pytest.raises(TooSlow, match="100 messages a second"):
        capacity(here, _SIZES)  # type: ignore[arg-type]
