"""Punctual compared with other systems, run by run."""

from dataclasses import replace

from benchmarks import beside
from benchmarks.figures import Figures
from benchmarks.result import Result
from benchmarks.sizes import FULL
from tests.benchmarks.test_page import MACHINE


def result(*runs: Figures) -> Result:
    return Result(machine=replace(MACHINE), sizes=FULL, settings={}, figures=runs[0], runs=list(runs))


def run(own: float, other: float, name: str = "drain_per_s") -> Figures:
    return {"workers 1": {name: own}, "streams": {name: other}}


def test_a_ratio_is_of_one_run_and_the_median_of_all() -> None:
    [text] = beside.behind(result(run(50, 100), run(90, 100), run(60, 100)))

    assert text == "- Compared with Kafka Streams: drain until appended: 0.60 (0.50 … 0.90)."


def test_more_is_better_for_rates_and_worse_for_the_rest() -> None:
    rate, cpu = result(run(120, 100)), result(run(120, 100, "drain_cpu_us"))

    assert list(beside.behind(rate)) == ["- Compared with Kafka Streams: nothing."]
    assert list(beside.behind(cpu)) == ["- Compared with Kafka Streams: drain, worker CPU: 1.20."]


def test_the_table_has_slower_results_in_bold_and_only_measured_systems() -> None:
    head, *rows = beside.ratios(result({**run(50, 100), "sorted-set": {"drain_per_s": 25}}))

    assert list(head) == ["Punctual ÷", "Kafka Streams", "a Redis sorted set"]
    assert ["drain until appended", "**0.50**", "2.00"] in [list(row) for row in rows]


def test_at_least_once_is_taken_from_its_parts_where_it_was_not_measured_as_a_whole() -> None:
    figures = {"drain": {"per_s": 50.0}, "lateness": {"p50_ms": 2.0}, "streams": {"drain_per_s": 100.0, "p50_ms": 4.0}}

    assert list(beside.behind(result(figures))) == ["- Compared with Kafka Streams: drain until appended: 0.50."]


def test_two_processes_are_compared_with_two_threads() -> None:
    figures = {"workers 2": {"drain_per_s": 50.0}, "streams-two-threads": {"drain_per_s": 100.0}}

    [text] = beside.behind(result(figures))
    assert text.startswith("- Compared with Kafka Streams with two threads (Punctual: two processes): drain")
