"""The overview of a bulk request: counts and bars."""

from collections import Counter

import pandas as pd
import pytest

from pipeline import home
from pipeline.bulk.overview import Overview, bars, bin_width_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("span", "width"),
    [
        (0, MINUTE),
        (23 * MINUTE, MINUTE),
        (24 * MINUTE, 2 * MINUTE),
        (DAY, 2 * HOUR),
        (30 * DAY, 2 * DAY),
        (3650 * DAY, 180 * DAY),
    ],
)
def test_bins_have_a_round_width_and_are_at_most_24(span: int, width: int) -> None:
    begin = 20_000 * DAY
    assert bin_width_ms(begin, begin + span) == width
    assert span // width < 24


def test_an_empty_bin_is_drawn_too() -> None:
    lines = list(bars({0: 1, 2 * HOUR: 80}, HOUR, overdue=40))
    assert lines == [
        "already due                  40  " + "#" * 20,
        "1970-01-01 00:00              1  #",
        "1970-01-01 01:00              0",
        "1970-01-01 02:00             80  " + "#" * 40,
    ]


def test_the_least_frequent_destinations_are_summed_up() -> None:
    overview = Overview(Counter({f"topic-{n:02}": 100 - n for n in range(23)}))
    lines = list(overview.lines())
    assert f"{'topic-19':<50}  {81:>13}" in lines
    assert f"{'3 others':<50}  {80 + 79 + 78:>13}" in lines


def test_a_paced_task_does_not_catch_up_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    sleeps_s: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal clock
        sleeps_s.append(round(seconds, 6))
        clock += seconds

    monkeypatch.setattr("pipeline.home.time.monotonic", lambda: clock)
    monkeypatch.setattr("pipeline.home.time.sleep", sleep)
    chunks = iter([pd.Series([0] * 10)] * 4)
    for number, _ in enumerate(home._at_pace(100.0)(chunks)):
        clock += 60 if number == 1 else 0.02  # Kafka accepts no record for a minute.

    assert sleeps_s == [0.08, 0.0, 0.08, 0.08]
