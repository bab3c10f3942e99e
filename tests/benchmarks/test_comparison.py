"""Comparing results, and saving them for it."""

from pathlib import Path

import msgspec
import pytest

from benchmarks import comparison, report
from benchmarks.errors import ResultUnusable
from benchmarks.figures import Figures
from benchmarks.machine import Machine
from benchmarks.result import Result
from benchmarks.sizes import FULL, SHORT

MACHINE = Machine(
    date="2030-01-31",
    cores=2,
    system="Linux x86_64",
    python="CPython 3.11.9",
    kafka="4.3.0",
    commit="abc",
    load_before=0.1,
)


def result(figures: Figures, **more: object) -> Result:
    usual = {"machine": MACHINE, "sizes": SHORT, "settings": {}, "figures": figures, "runs": [figures]}
    return Result(**{**usual, **more})  # type: ignore[arg-type]


def hot(ingest: float, drain: float) -> Figures:
    return {"ingest": {"cpu_loops": ingest}, "drain": {"cpu_loops": drain}}


def test_a_ratio_is_now_over_then() -> None:
    assert comparison.ratios({"drain": {"per_s": 30.0}}, {"drain": {"per_s": 20.0}}) == {"drain": {"per_s": 1.5}}


def test_figures_of_only_one_result_are_left_out() -> None:
    now: Figures = {"drain": {"per_s": 30.0, "cpu_us": 9.0}, "mixed": {"p99_ms": 1.0}}

    assert comparison.ratios(now, {"drain": {"per_s": 0.0, "cpu_us": 9.0}}) == {"drain": {"cpu_us": 1.0}}


def test_a_third_more_cpu_a_message_is_slower() -> None:
    assert comparison.slower(hot(133, 100), hot(100, 100)) == ["ingest takes 1.33 times the CPU a message"]
    assert comparison.slower(hot(100, 133), hot(100, 100)) == ["drain takes 1.33 times the CPU a message"]


def test_a_quarter_more_is_noise_and_less_is_fine() -> None:
    assert comparison.slower(hot(125, 50), hot(100, 100)) == []


def test_without_measurements_no_figure_is_slower() -> None:
    assert comparison.slower({"lateness": {"p50_ms": 900.0}}, hot(100, 100)) == []


def test_the_table_marks_worse_figures_whichever_direction_is_better() -> None:
    now = result({"drain": {"per_s": 50.0, "cpu_us": 50.0}, "mixed": {"p99_ms": 90.0, "due_meanwhile": 900.0}})
    then = result({"drain": {"per_s": 90.0, "cpu_us": 90.0}, "mixed": {"p99_ms": 9.0, "due_meanwhile": 9.0}})

    marks = [line.endswith("worse") for line in comparison.table(now, then).splitlines()]

    assert marks == [False, True, False, True, False]


def test_other_conditions_are_reported() -> None:
    busy = msgspec.structs.replace(result({}), sizes=FULL, settings={"DELAY_GUARANTEE": "exactly_once"})

    assert comparison.differences(busy, result({})) == [
        "sizes: full now, short then",
        "DELAY_GUARANTEE: exactly_once now, default then",
    ]


def test_a_saved_result_reads_back_the_same(tmp_path: Path) -> None:
    saved = result(hot(1.5, 2.5))

    assert Result.load(saved.save(tmp_path)) == saved


def test_results_of_one_day_do_not_overwrite_each_other(tmp_path: Path) -> None:
    paths = [result(hot(1, 2)).save(tmp_path).name for _ in range(2)]

    assert paths == ["2030-01-31-short-ingest-drain.json", "2030-01-31-short-ingest-drain-2.json"]


def test_a_file_has_the_name_of_its_only_measurement(tmp_path: Path) -> None:
    figures = {"recovery 100,000": {"rss_mib": 1.0}, "recovery 10,000,000": {"rss_mib": 2.0}}

    assert result(figures).save(tmp_path).name == "2030-01-31-short-recovery.json"


def test_another_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"figures": 1}', "utf-8")

    with pytest.raises(ResultUnusable, match="is not a result"):
        Result.load(other)
    with pytest.raises(ResultUnusable):
        Result.load(tmp_path / "missing.json")


def test_the_table_aligns_numbers_and_names_each_group_once() -> None:
    figures: Figures = {"drain": {"per_s": 98_765.4, "cpu_us": 9.87}}

    assert report.table(result(figures)).splitlines() == [
        "drain  until appended  98,765  messages/s",
        "       worker CPU         9.9  µs/message",
    ]


def test_several_runs_show_the_least_and_the_most() -> None:
    runs: list[Figures] = [{"mixed": {"p99_ms": value}} for value in (9.0, 12.0, 30.0)]

    table = report.table(result({"mixed": {"p99_ms": 12.0}}, runs=runs))

    assert table == "mixed  lateness, p99  12  ms  9 … 30"
