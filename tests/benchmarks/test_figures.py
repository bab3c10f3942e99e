"""How samples become figures."""

import pytest

from benchmarks.experiments import NAMES
from benchmarks.figures import KINDS, calibrated, medians, spread
from benchmarks.meter import Series, cpu_s, resident_mib

STAT = "4242 (faust (worker) 1) S 1 4242 4242 0 -1 4194304 100 0 0 0 1250 350 7 9 20 0 12 0 100 1 1"
STATUS = "Name:\tpython\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\n"


def test_percentiles_are_values_that_occurred() -> None:
    assert spread(list(range(1_000))) == {
        "p50_ms": 500,
        "p90_ms": 900,
        "p99_ms": 990,
        "p999_ms": 999,
        "max_ms": 999,
    }


def test_the_percentiles_of_one_value_are_that_value() -> None:
    assert set(spread([7]).values()) == {7}


def test_percentiles_do_not_depend_on_the_order() -> None:
    assert spread([3, 1, 2]) == spread([1, 2, 3])


def test_cpu_time_is_user_and_system_time_whatever_the_process_is_called() -> None:
    assert cpu_s(STAT, ticks_per_s=100) == 16.0


def test_memory_is_read_in_mebibytes() -> None:
    assert resident_mib(STATUS) == 100
    assert resident_mib(STATUS, "VmHWM") == 200


@pytest.fixture
def series() -> Series:
    samples = Series()
    for at_ms, cpu in ((1_000, 2.0), (1_020, 2.01), (1_040, 2.05)):
        samples.add(at_ms, cpu)
    return samples


def test_cpu_between_samples_is_interpolated(series: Series) -> None:
    assert series.cpu_at(1_030) == pytest.approx(2.03)


def test_cpu_at_a_sample_is_the_sample(series: Series) -> None:
    assert [series.cpu_at(at) for at in (1_000, 1_020, 1_040)] == [2.0, 2.01, 2.05]


def test_cpu_outside_of_all_samples_is_that_of_the_nearest(series: Series) -> None:
    assert (series.cpu_at(0), series.cpu_at(9_000)) == (2.0, 2.05)


def test_cpu_between_two_instants_is_their_difference(series: Series) -> None:
    assert series.cpu_between(1_010, 1_030) == pytest.approx(0.025)


def test_several_runs_become_medians_figure_by_figure() -> None:
    runs = [{"drain": {"per_s": value}} for value in (3.0, 1.0, 2.0)]

    assert medians([*runs, {"restore": {"rows_per_s": 5.0}}]) == {
        "drain": {"per_s": 2.0},
        "restore": {"rows_per_s": 5.0},
    }


def test_cpu_is_counted_in_loops_too_where_it_is_per_message() -> None:
    figures = calibrated({"ingest": {"cpu_us": 15.0}, "mixed": {"p99_ms": 9.0}}, loop_s=0.05)

    assert figures["ingest"]["cpu_loops"] == 300  # 15 s a million messages, 0.05 s a loop
    assert figures["mixed"] == {"p99_ms": 9.0}


def test_every_measurement_has_figures() -> None:
    assert {*NAMES, "calibration"} == set(KINDS)
