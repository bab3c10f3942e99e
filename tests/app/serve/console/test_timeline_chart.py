"""The chart of due messages marks estimated counts and counts of several destinations."""

from typing import Any

from app.engine.steps.plan import PAUSED_MS
from app.serve.console.timeline_chart import LIKELY, SERIES, TOGETHER, timeline_chart

MINUTE = 60_000
NOW = 1_800_000_000_000


def bucket(minute: int, total: int, *, unseen: int = 0, minutes: int = 1, **by: int) -> dict[str, Any]:
    since = NOW + minute * MINUTE
    return {
        "from_ms": since, "to_ms": since + minutes * MINUTE, "total": total, "exact": not unseen, "unseen": unseen,
        "by": by,
    }  # fmt: skip


def test_estimated_counts_are_drawn_separately_and_labelled_about() -> None:
    [panel] = timeline_chart([bucket(0, 10, orders=10), bucket(1, 4, unseen=36, orders=4)], NOW).panels
    assert (panel.total, panel.most, panel.exact) == (50, 40, False)
    seen, likely = panel.bars
    assert ([part.series for part in seen.parts], [part.series for part in likely.parts]) == ([0], [0, LIKELY])
    assert (seen.label.partition(" due")[0], likely.label.partition(" due")[0]) == ("10", "about 40")
    tallest = likely.parts[-1]
    assert tallest.y + tallest.height <= likely.parts[0].y + 0.02


def test_bars_fill_the_width_between_the_ends_and_few_stay_narrow() -> None:
    [panel] = timeline_chart([bucket(minute, 1, orders=1) for minute in range(5)], NOW).panels
    assert (panel.bars[-1].x, panel.last != "") == (800.0, True)

    [few] = timeline_chart([bucket(0, 1, orders=1), bucket(1, 1, orders=1)], NOW).panels
    assert (few.bars[-1].x, few.last) == (83.33, "")
    assert " to " in few.first


def test_counts_of_several_destinations_have_a_colour_of_their_own() -> None:
    drawn = timeline_chart([bucket(0, 3, orders=3), bucket(60, 500, minutes=60)], NOW)
    assert (drawn.names, drawn.kinds) == (["orders"], frozenset({0, TOGETHER}))
    many = timeline_chart([bucket(0, 8, **{f"topic-{number}": 1 for number in range(SERIES + 2)})], NOW)
    assert (many.names[-1], many.kinds) == ("others", frozenset(range(SERIES + 1)))


def test_an_empty_minute_that_has_just_passed_is_not_late() -> None:
    drawn = timeline_chart([bucket(-1, 0), bucket(0, 3, orders=3)], NOW)
    assert [panel.title for panel in drawn.panels] == ["Per minute"]
    assert [panel.title for panel in timeline_chart([bucket(-1, 1, orders=1), bucket(0, 3)], NOW).panels] == [
        "Late",
        "Per minute",
    ]


def test_recurring_messages_that_are_paused_are_counted_and_not_drawn() -> None:
    far = {"from_ms": PAUSED_MS - 10**13, "to_ms": 1 << 55, "total": 2, "exact": True, "unseen": 0, "by": {"jobs": 2}}
    later = {"from_ms": NOW + 90_000_000, "to_ms": far["from_ms"], "total": 0, "exact": True, "unseen": 0, "by": {}}
    drawn = timeline_chart([bucket(0, 3, orders=3), later, far], NOW)
    assert ([panel.title for panel in drawn.panels], drawn.names, drawn.paused) == (["Per minute"], ["orders"], 2)
    only = timeline_chart([far], NOW)
    assert (only.panels, only.paused) == ([], 2)
    whole = timeline_chart([far | {"from_ms": 0}], NOW)
    assert (len(whole.panels), whole.paused) == (1, 0)
