"""Writes saved results into the tables and plots of docs/explanation: `python -m benchmarks.page`."""

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from benchmarks import beside, plots
from benchmarks.beside import ONE, WHOLE
from benchmarks.experiments import baselines
from benchmarks.figures import KINDS, Figures, Kind
from benchmarks.goals import GOALS, Goal
from benchmarks.report import formatted
from benchmarks.result import DIRECTORY, Result

PAGE = Path(__file__).parents[1] / "docs/explanation/benchmarks.md"
#: The short page: one table.
SHORT_PAGE = PAGE.with_name("performance.md")
_SUMMARY = "<!-- summary: written by `make bench NAME=full` -->\n", "<!-- end of summary -->\n"
_SUMMARY_SYSTEMS = ("exactly-once", "streams", "streams-exactly-once", "sorted-set", "etf1")
_SUMMARY_FIGURES = ("p50_ms", "p99_ms", "ingest_per_s", "drain_per_s", "cpu_s_per_30k", "peak_mib")
_BESIDE = "<!-- beside: written by `make bench NAME=full` -->\n", "<!-- end of beside -->\n"
_RESULTS = "<!-- results: written by `make bench NAME=full` -->\n", "<!-- end of results -->\n"
#: The calculated installation: the maximum CPU share of a worker, and the records that a message writes to Kafka.
_PENDING, _RATE = 1_000_000_000, 100_000
_BUSY, _RECORDS = 0.6, 6
#: The busiest and the fullest measured worker: the calculation goes no further.
_BUSIEST, _LARGEST = "matrix 10,000/s above 10,000,000", "recovery 10,000,000"
#: Messages a second of an installation whose account is kept; each is three records: a request and two events.
_KEPT, _EACH = 10_000, 3
_TITLES = {ONE: "Punctual", "exactly-once": "Punctual, exactly once", **baselines.TITLES}
#: Groups that the table of goals covers.
_SHOWN_AS_GOALS = ("look", "pipeline")
_NOT_SHOWN = ("p90_ms", "seen_p999_ms", "cpu_loops", "net_rows_per_s")
_FORMS = ("short", "full")
#: Groups for which the page compares results with and without the native extension, as far as they are there.
_COMPILED = ("ingest", "drain", "lateness", "exactly-once", ONE)


def main() -> None:
    """Write the page's tables again, and its plots."""
    paths = sorted(DIRECTORY.glob("*.json"))
    results = newest(paths)
    figures = {group: result.figures[group] for group, (_, result) in results.items()}
    plots.draw(figures | _together(results), PAGE.parent)
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), results, without_kernel(paths)), "utf-8")
    SHORT_PAGE.write_text(with_summary(SHORT_PAGE.read_text("utf-8"), results), "utf-8")


def newest(paths: Iterable[Path]) -> dict[str, tuple[str, Result]]:
    """Return each group's newest full result, else its newest short one, and the result's file.

    Of one day's results it is the one with the native extension, then with the most runs.
    """
    return _newest([(path.name, Result.load(path)) for path in paths])


def without_kernel(paths: Iterable[Path]) -> dict[str, tuple[str, Result]]:
    """Return the same as `newest`, of results without the native extension."""
    loaded = [(path.name, Result.load(path)) for path in paths]
    return _newest([(name, result) for name, result in loaded if result.kernel == "off"])


def _newest(loaded: Sequence[tuple[str, Result]]) -> dict[str, tuple[str, Result]]:
    published = [(name, result) for name, result in loaded if result.sizes.name in _FORMS]
    published.sort(key=lambda pair: _rank(*pair))
    return {group: (name, result) for name, result in published for group in result.figures}


def _rank(name: str, result: Result) -> tuple[int, str, bool, int, int]:
    form = _FORMS.index(result.sizes.name)
    return form, result.machine.date, result.kernel == "on", len(result.runs), _last(name)


def _last(name: str) -> int:
    """Return a file's number among those of the same name and day."""
    match = re.fullmatch(r".*-(\d+)\.json", name)
    return int(match[1]) if match else 1


def with_tables(
    page: str,
    results: dict[str, tuple[str, Result]],
    python: Mapping[str, tuple[str, Result]] = MappingProxyType({}),
) -> str:
    """Replace the tables of the page by those for `results`; `python` are the results without the native extension."""
    together = [*_behind(results), "", *_ratios(results), "", *_beside(results)]
    page = _put(page, _BESIDE, "\n".join(together).strip())
    return _put(page, _RESULTS, _tables(results, python))


def with_summary(page: str, results: dict[str, tuple[str, Result]]) -> str:
    """Replace the table of the short page by the summary of `results`."""
    return _put(page, _SUMMARY, "\n".join(_summary(results)))


def _summary(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return a table of the most important figures, by system."""
    figures = _together(results)
    groups = [group for group in (ONE, *_SUMMARY_SYSTEMS) if group == ONE or group in figures]
    yield from _head("", *(_TITLES[group] for group in groups))
    for name in _SUMMARY_FIGURES:
        kind = KINDS["exactly-once"][name]
        cells = (beside.own_value(figures, group, name) for group in groups)
        yield _row(f"{kind.label}, {kind.unit}", *("" if value is None else formatted(value, kind) for value in cells))


def _put(page: str, marks: tuple[str, str], text: str) -> str:
    begin, end = marks
    before, after_begin = page.split(begin)
    _, after = after_begin.split(end)
    return f"{before}{begin}\n{text}\n{end}{after}"


def _together(results: dict[str, tuple[str, Result]]) -> Figures:
    """Return the figures of whole systems, of one run as far as the newest result with another system has them.

    At least once is measured as the others are where it is: by `workers`.
    """
    groups = ("lateness", "ingest", "drain", ONE, *WHOLE)
    figures = {group: results[group][1].figures[group] for group in groups if group in results}
    same = beside.same_run(results)
    if same is not None:
        figures |= {group: same.figures[group] for group in groups if group in same.figures}
    return figures


def _behind(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    same = beside.same_run(results)
    if same is not None:
        runs = f"{len(same.runs)} run{'s' * (len(same.runs) > 1)}"
        yield f"Slower than the other system (native extension {same.kernel}, {runs}):"
        yield ""
        yield from beside.behind(same, brief=True)
        measured = _measured(_full(results))
        missed = [goal.label for goal, values in measured if goal.verdict(statistics.median(values)) == "missed"]
        yield f"- Below its own [minimum](#results): {'; '.join(missed) or 'nothing'}."


def _ratios(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    same = beside.same_run(results)
    if same is not None:
        for number, cells in enumerate(beside.ratios(same)):
            yield from _head(*cells) if number == 0 else [_row(*cells)]


def _tables(results: dict[str, tuple[str, Result]], python: Mapping[str, tuple[str, Result]]) -> str:
    parts = (_goals, partial(_compiled, python), _alone, _families, _pictures, _growth, _parked, _sources)
    return "\n\n".join(filter(None, ("\n".join(part(results)) for part in parts)))


def _compiled(python: Mapping[str, tuple[str, Result]], results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return a table with and without the native extension, where both were measured of one commit."""
    rows = [
        _row(group, kind.label, *cells, f"{on.figures[group][name] / off.figures[group][name]:.2f}")
        for group in _COMPILED
        if group in results and group in python
        for on, off in [(results[group][1], python[group][1])]
        if (on.kernel, on.machine.commit, on.sizes) == ("on", off.machine.commit, off.sizes)
        for name, kind in KINDS[group.split()[0]].items()
        if kind.better and off.figures[group].get(name) and name in on.figures[group]
        for cells in [[f"{formatted(it.figures[group][name], kind)} {kind.unit}" for it in (on, off)]]
    ]
    if rows:
        yield from _head("", "", "native extension", "Python only", "ratio")
        yield from rows


def _goals(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return a table of the goals and the results, in the full form."""
    full = _full(results)
    if full:
        yield from _head("", "minimum", "goal", "median", "min … max", "result")
    for goal, values in _measured(full):
        median, kind = statistics.median(values), goal.kind
        limits = (f"{formatted(limit, kind)} {kind.unit}" for limit in (goal.minimum, goal.goal))
        between = f"{formatted(min(values), kind)} … {formatted(max(values), kind)}"
        yield _row(goal.label, *limits, formatted(median, kind), between, goal.verdict(median))


def _full(results: Mapping[str, tuple[str, Result]]) -> dict[str, Result]:
    return {group: result for group, (_, result) in results.items() if result.sizes.name == "full"}


def _measured(full: Mapping[str, Result]) -> Iterator[tuple[Goal, Sequence[float]]]:
    """Return the goals for which there are figures, with those of each run."""
    for goal in GOALS:
        groups = [full[group] for group in goal.groups if group in full]
        values = goal.of(groups[0].runs if groups else [])
        if values:
            yield goal, values


def _alone(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return a table of all that is measured of one worker and has no goal."""
    judged = {(goal.groups, goal.name) for goal in GOALS}
    yield from _head("one worker", "", "median", "min … max", "runs")
    for group, kinds in KINDS.items():
        if group in results and group not in (*WHOLE, *_SHOWN_AS_GOALS, "calibration"):
            for name, kind in _brief(kinds):
                if ((group,), name) not in judged:
                    yield from _line(results[group][1], group, name, kind)


def _brief(kinds: Mapping[str, Kind]) -> Iterator[tuple[str, Kind]]:
    """Return the kinds that the tables show: all but percentiles between others, and the same values once more."""
    return ((name, kind) for name, kind in kinds.items() if name not in _NOT_SHOWN)


def _line(result: Result, group: str, name: str, kind: Kind) -> Iterator[str]:
    every = [run[group][name] for run in result.runs if name in run.get(group, {})]
    if every:
        between = f"{formatted(min(every), kind)} … {formatted(max(every), kind)}" if len(every) > 1 else ""
        median = f"{formatted(result.figures[group][name], kind)} {kind.unit}"
        yield _row(group, kind.label, median, between, str(len(every)))


def _beside(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return a table of all systems."""
    figures = _together(results)
    groups = [ONE, *(name for name in WHOLE if name in figures)]
    yield from _head("", "Punctual", *(_TITLES[name] for name in groups[1:]))
    for name, kind in _brief(KINDS["exactly-once"]):
        cells = [beside.own_value(figures, one, name) for one in groups]
        yield _row(f"{kind.label}, {kind.unit}", *("" if value is None else formatted(value, kind) for value in cells))


def _families(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return a table of each experiment that measures the same in several circumstances."""
    for first in ("matrix", "recovery", "values", "workers"):
        groups = [group for group in results if group.split()[0] == first and group != first]
        if groups:
            yield from _head(first, *(f"{kind.label}, {kind.unit}" for _, kind in _brief(KINDS[first])))
            for group in groups:
                figures = results[group][1].figures[group]
                cells = (
                    formatted(figures[name], kind) if name in figures else "" for name, kind in _brief(KINDS[first])
                )
                yield _row(group.partition(" ")[2], *cells)
            yield ""


def _pictures(_: dict[str, tuple[str, Result]]) -> Iterator[str]:
    yield from (f"![{alt}]({name})" for name, alt in plots.PICTURES.items() if (PAGE.parent / name).exists())


def _growth(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return the needs of a large installation, calculated from one worker's figures."""
    if not {_BUSIEST, _LARGEST} <= results.keys():
        return
    busiest, largest = (results[group][1].figures[group] for group in (_BUSIEST, _LARGEST))
    cores = busiest["cpu_s_per_30k"] / 30_000 * _RATE
    workers = math.ceil(cores / _BUSY)
    disk = 2 * largest["disk_bytes"] * _PENDING
    restore_s = _PENDING / workers / largest["net_rows_per_s"]
    yield f"Calculated from these figures, {_PENDING:,} pending messages at {_RATE:,} messages/s, in and out, need:"
    yield ""
    yield from _head("", "calculated", "from")
    yield _row("busy cores of workers", f"{cores:.1f}", f"CPU of one worker at {_BUSIEST.partition(' ')[2]} pending")
    yield _row("workers", f"{workers}", f"one core each, {_BUSY:.0%} used")
    yield _row("partitions", f"{4 * workers}", "four per worker, so that others can share those of a lost worker")
    yield _row(
        "disk of each worker", f"{disk / workers / 1e9:.0f} GB", "twice the disk per pending message, for compaction"
    )
    yield _row("time to restore a lost disk", f"{restore_s / 60:.0f} min", "restore of ten million")
    yield _row(
        "records written to Kafka", f"{_RECORDS * _RATE:,}/s", "request, two of the changelog, two events, delivery"
    )


def _parked(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return the needs of the pipeline for as many messages in the cold tier, calculated from its figures."""
    if "pipeline" not in results:
        return
    result = results["pipeline"][1]
    of, cores = result.figures["pipeline"], result.machine.cores

    def core_hours(rows: float, rate: str) -> str:
        return f"{cores * rows / of[rate] / 3_600:.1f} core hours"

    def busy(rows_per_s: float, rate: str) -> str:
        return f"{cores * rows_per_s / of[rate]:.2f} cores"

    rows = _EACH * _KEPT
    yield f"Calculated for {_PENDING:,} parked messages and the ledger of {_KEPT:,} messages/s, the pipeline needs:"
    yield ""
    yield from _head("", "calculated", "from")
    yield _row("Parquet", f"{of['parked_bytes'] * _PENDING / 1e9:.0f} GB", "bytes per parked message of 100 bytes")
    yield _row("send all of them by `bulk`", core_hours(_PENDING, "bulk_per_s"), "rows/s of `bulk`")
    yield _row(f"`park` at {_KEPT:,}/s", busy(_KEPT, "park_per_s"), "rows/s of `park`")
    yield _row("`park --compact`, once a day", core_hours(_PENDING, "compact_per_s"), "rows/s of `park --compact`")
    yield _row("`ledger`", busy(rows, "ledger_per_s"), "rows/s of `ledger`")
    yield _row("`reconcile` of a day", core_hours(rows * 86_400, "reconcile_per_s"), "rows/s of `reconcile`")


def _sources(results: dict[str, tuple[str, Result]]) -> Iterator[str]:
    """Return a table of the files and their machines: the loop takes longer on a slower machine."""
    loop = KINDS["calibration"]["loop_ms"]
    yield from _head("results", "form", "runs", "commit", "native extension", "load before", loop.label)
    for name, result in dict(results.values()).items():
        measured = result.figures.get("calibration", {}).get("loop_ms")
        calibration = f"{formatted(measured, loop)} {loop.unit}" if measured is not None else ""
        machine = result.machine
        cells = (result.sizes.name, str(len(result.runs)), machine.commit, result.kernel or "")
        yield _row(f"`benchmarks/results/{name}`", *cells, f"{machine.load_before:.2f}", calibration)


def _head(*cells: str) -> Iterator[str]:
    yield _row(*cells)
    yield _row(*(["---"] * len(cells)))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
