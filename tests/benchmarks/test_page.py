"""The page of results: which file a figure comes from."""

from dataclasses import replace
from pathlib import Path

import msgspec

from benchmarks.figures import KINDS, Figures
from benchmarks.kernel import Kernel
from benchmarks.machine import Machine
from benchmarks.page import newest, with_tables, without_kernel
from benchmarks.result import Result
from benchmarks.sizes import FULL, SHORT, Sizes

MACHINE = Machine(
    date="2026-01-01", cores=2, system="Linux", python="CPython 3.11", kafka="4.3.0", commit="abc", load_before=0.0
)
PAGE = (
    "<!-- beside: written by `make bench NAME=full` -->\n<!-- end of beside -->\n"
    "<!-- results: written by `make bench NAME=full` -->\n<!-- end of results -->\n"
)


def group(name: str, value: float) -> Figures:
    return {name: dict.fromkeys(KINDS[name], value)}


def save(
    directory: Path,
    figures: Figures,
    *,
    runs: int = 1,
    sizes: Sizes = FULL,
    date: str = "2026-01-01",
    kernel: Kernel = "off",
) -> Path:
    machine, every = replace(MACHINE, date=date), [figures] * runs
    result = Result(machine=machine, sizes=sizes, settings={}, kernel=kernel, figures=figures, runs=every)
    return result.save(directory)


def test_of_one_day_the_result_with_the_most_runs_is_shown_else_the_newest_and_the_full_one(tmp_path: Path) -> None:
    often = save(tmp_path, group("ingest", 1), runs=3)
    once = save(tmp_path, group("ingest", 2))
    early = save(tmp_path, group("drain", 3), runs=5, date="2025-12-31")
    late = save(tmp_path, group("drain", 4))
    short = save(tmp_path, group("drain", 5), sizes=SHORT, date="2026-02-01")

    found = newest([often, once, early, late, short])

    assert {name: path for name, (path, _) in found.items()} == {"ingest": often.name, "drain": late.name}


def test_of_several_with_as_many_runs_the_last_one_is_shown(tmp_path: Path) -> None:
    files = [save(tmp_path, group("ingest", number)) for number in range(11)]

    assert newest(sorted(files))["ingest"][0] == files[-1].name == "2026-01-01-full-ingest-11.json"


def test_systems_in_a_comparison_are_of_one_run_and_measured_in_the_same_way(tmp_path: Path) -> None:
    own = group("lateness", 1) | group("ingest", 1) | group("drain", 1)
    early = save(tmp_path, group("streams", 5) | group("exactly-once", 5), date="2025-12-31")
    beside = own | group("sorted-set", 9)
    with_workers = beside | {"workers 1": group("workers", 7)["workers"]}

    alone = with_tables(PAGE, newest([save(tmp_path, own)])).splitlines()
    one = with_tables(PAGE, newest([early, save(tmp_path, own, runs=3), save(tmp_path, beside)])).splitlines()
    two = with_tables(PAGE, newest([early, save(tmp_path, own, runs=3), save(tmp_path, with_workers)])).splitlines()

    assert "| lateness, p99, ms | 1 |" in alone
    assert "| lateness, p99, ms | 1 | 5 | 5 | 9 |" in one
    assert "| lateness, p99, ms | 7 | 5 | 5 | 9 |" in two
    assert "| lateness | lateness, maximum | 1 ms | 1 … 1 | 3 |" in two


def test_the_native_extension_is_shown_next_to_python_alone_of_the_same_day(tmp_path: Path) -> None:
    python = save(tmp_path, group("ingest", 4), runs=3)
    compiled = save(tmp_path, group("ingest", 2), runs=2, kernel="on")
    paths = [python, compiled]

    lines = with_tables(PAGE, newest(paths), without_kernel(paths)).splitlines()

    assert newest(paths)["ingest"][0] == compiled.name == "2026-01-01-full-ingest-kernel.json"
    assert "| ingest | worker CPU | 2.0 µs/message | 4.0 µs/message | 0.50 |" in lines
    assert f"| `benchmarks/results/{compiled.name}` | full | 2 | abc | on | 0.00 |  |" in lines


def test_results_of_other_commits_do_not_show_the_effect_of_the_native_extension(tmp_path: Path) -> None:
    compiled = save(tmp_path, group("ingest", 2), kernel="on")
    old = Result.load(save(tmp_path, group("ingest", 4)))
    other = replace(old.machine, commit="def")
    python = Result(**{**msgspec.structs.asdict(old), "machine": other}).save(tmp_path)

    page = with_tables(PAGE, newest([compiled]), without_kernel([python]))

    assert "Python only" not in page


def test_comparisons_that_punctual_loses_come_first(tmp_path: Path) -> None:
    path = save(tmp_path, group("workers", 7) | {"workers 1": group("workers", 7)["workers"]} | group("streams", 5))

    lines = with_tables(PAGE, newest([path])).splitlines()

    assert lines[2] == "Slower than the other system (native extension off, 1 run):"
    assert lines[4].startswith("- Compared with Kafka Streams: lateness, p50;")
    assert lines[5] == "- Below its own [minimum](#results): nothing."


def test_missed_minimums_are_listed_as_losses_too(tmp_path: Path) -> None:
    own = group("lateness", 1) | group("ingest", 1) | group("drain", 1)
    path = save(tmp_path, own | group("streams", 5))

    assert "- Below its own [minimum](#results): ingest; drain." in with_tables(PAGE, newest([path])).splitlines()


def test_results_of_before_there_was_a_compiled_path_are_of_python(tmp_path: Path) -> None:
    path = save(tmp_path, group("ingest", 1))
    said = msgspec.json.decode(path.read_bytes())
    del said["kernel"]
    path.write_bytes(msgspec.json.encode(said))

    assert Result.load(path).kernel == "off"
