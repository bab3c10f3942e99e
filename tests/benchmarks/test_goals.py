"""Measured figures are compared with their goals."""

import pytest

from benchmarks.goals import GOALS, Goal


def goal(label: str) -> Goal:
    return next(one for one in GOALS if one.label.startswith(label))


@pytest.mark.parametrize(
    ("value", "said"), [(100_000, "goal"), (99_999, "minimum"), (50_000, "minimum"), (49_999, "missed")]
)
def test_more_is_better_for_rates(value: float, said: str) -> None:
    assert goal("ingest").verdict(value) == said


@pytest.mark.parametrize(("value", "said"), [(2, "goal"), (2.1, "minimum"), (6, "minimum"), (6.1, "missed")])
def test_less_is_better_for_times(value: float, said: str) -> None:
    assert goal("kill -9").verdict(value) == said


def test_figures_of_several_groups_are_added_run_by_run() -> None:
    runs: list[dict[str, dict[str, float]]] = [
        {"ingest": {"cpu_us": 20}, "drain": {"cpu_us": 30}},
        {"ingest": {"cpu_us": 25}, "drain": {"cpu_us": 30}},
        {"ingest": {"cpu_us": 25}},
    ]

    assert goal("worker CPU").of(runs) == [50, 55]
