"""Saved results as the tables of docs/explanation/test-results.md."""

import json
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
PAGE = Path(__file__).parents[2] / "docs/explanation/test-results.md"
_BEGIN, _END = "<!-- results: written by `make chaos` -->\n", "<!-- end of results -->\n"
ZERO = ("lost", "early", "revived", "altered", "unbalanced", "hanging", "fenced")
_POINTS = "crash-points"
#: Entries of a scenario's list that are checks, not faults.
_CHECKS = ("databases compared with the changelog", "compactions seen")
#: Measurements that the page shows, with their labels there: all others are in the saved results.
_SHOWN = {
    "longest_pause_after_kill_ms": "worst lateness after a broker was killed",
    "longest_pause_after_silence_ms": "worst lateness after a broker was suspended",
    "longest pause after kill -9, ms": "worst lateness after a worker was killed",
    "longest pause of a graceful restart, ms": "worst lateness during a graceful restart of a worker",
    "longest_while_restarting_ms": "worst lateness during a restart of a worker",
    "before_p99_ms": "p99 lateness of other destinations, before the fault",
    "neighbours_p99_ms": "p99 lateness of other destinations, during the fault",
}

Result = dict[str, Any]


def load() -> list[Result]:
    """Return all saved results."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))]


def save(result: Result) -> None:
    """Replace the last result of the same scenario and guarantee, and write the tables again."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{result['scenario']}-{result['guarantee']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    PAGE.write_text(with_results(PAGE.read_text("utf-8"), load()), "utf-8")


def with_results(page: str, results: list[Result]) -> str:
    """Replace the tables of the page by those for `results`."""
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{tables(results)}\n{_END}{after}"


def tables(results: list[Result]) -> str:
    """Return a sentence on violations that no run has shown, a table of the scenarios, and a table of other
    measurements."""
    return "\n".join([_never(results), "", *_main(results), "", *_measured(results), ""])


def _never(results: list[Result]) -> str:
    """Return the counts that are zero in all results. Raises ValueError for a result in which one is not."""
    for result in results:
        wrong = [name for name in ZERO if result[name]]
        if wrong:
            raise ValueError(f"{result['scenario']}, {result['guarantee']}: {', '.join(wrong)} is not 0")
    return f"In all {len(results)} runs, these counts are 0: {', '.join(ZERO)}."


def _main(results: list[Result]) -> Iterable[str]:
    yield from _head("scenario", "faults", "messages", "duplicates", "allowed", "latest, s")
    for scenario, runs in _by_scenario(results):
        done = runs[0]["done"]
        if scenario == _POINTS:
            done = {f"SIGKILL at each of {len(done)} points": min(done.values())}
        yield _row(
            f"`{scenario}`",
            ", ".join(
                f"{times:,}\N{MULTIPLICATION SIGN} {what}" for what, times in done.items() if what not in _CHECKS
            ),
            *(
                " / ".join(f"{run[name]:,}" for run in runs)
                for name in ("messages", "duplicates", "duplicates_allowed")
            ),
            " / ".join(f"{run['longest_ms'] / 1000:.1f}" for run in runs),
        )


def _measured(results: list[Result]) -> Iterable[str]:
    yield from _head("scenario", "measured", "ms")
    for scenario, runs in _by_scenario(results):
        for name, label in _SHOWN.items():
            if name in runs[0]["measured"]:
                values = (f"{run['measured'][name]:,}" if name in run["measured"] else "" for run in runs)
                yield _row(f"`{scenario}`", label, " / ".join(values))


def _by_scenario(results: list[Result]) -> Iterable[tuple[str, list[Result]]]:
    """Group results by scenario, at least once first."""
    ordered = sorted(results, key=lambda result: (result["scenario"], result["guarantee"]))
    for scenario, runs in groupby(ordered, key=itemgetter("scenario")):
        yield scenario, list(runs)


def _head(*cells: str) -> Iterable[str]:
    yield _row(*cells)
    yield _row(*(["---"] * len(cells)))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
