"""Saved results as the tables of docs/explanation/test-results.md."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
PAGE = Path(__file__).parents[2] / "docs/explanation/test-results.md"
_BEGIN, _END = "<!-- results: written by `make chaos` -->\n", "<!-- end of results -->\n"
COUNTED = ("messages", "lost", "early", "revived", "altered", "unbalanced", "hanging", "fenced")
_GUARANTEES = {"at_least_once": "at least once", "exactly_once": "exactly once"}
_POINTS = "crash-points"

Result = dict[str, Any]


def load() -> list[Result]:
    """Return all saved results."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def save(result: Result) -> None:
    """Keep a result in place of the last one of the same scenario and guarantee, and write the tables anew."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{result['scenario']}-{result['guarantee']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(with_results(PAGE.read_text(), load()))


def with_results(page: str, results: list[Result]) -> str:
    """Put the tables of these results where the page has its tables."""
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{tables(results)}\n{_END}{after}"


def tables(results: list[Result]) -> str:
    """Return a table of all scenarios, what else was measured, and a table of the points of the order of operations."""
    return "\n".join([*_main(results), "", *_measured(results), "", *_points(results), ""])


def _main(results: list[Result]) -> Iterable[str]:
    titles = [name.replace("_", " ") for name in (*COUNTED, "duplicates, allowed", "latest, s")]
    yield from _head(["scenario", "guarantee", "done", *titles])
    for result in results:
        done = result["done"]
        if result["scenario"] == _POINTS:
            done = {"SIGKILL at a point": sum(done.values())}
        yield _row(
            f"`{result['scenario']}`",
            _GUARANTEES[result["guarantee"]],
            ", ".join(f"{times} {what}" for what, times in done.items()),
            *(f"{result[name]:,}" for name in COUNTED),
            f"{result['duplicates']:,}, {result['duplicates_allowed']:,}",
            f"{result['longest_ms'] / 1000:.1f}",
        )


def _measured(results: list[Result]) -> Iterable[str]:
    yield from _head(["scenario", "guarantee", "measured", ""])
    for result in results:
        for name, value in result["measured"].items():
            yield _row(f"`{result['scenario']}`", _GUARANTEES[result["guarantee"]], name, f"{value:,}")


def _points(results: list[Result]) -> Iterable[str]:
    at = {result["guarantee"]: result["done"] for result in results if result["scenario"] == _POINTS}
    yield from _head(["point", *(f"{name}: killed there" for name in _GUARANTEES.values())])
    for point in sorted(set().union(*at.values())):
        yield _row(f"`{point}`", *(str(at.get(guarantee, {}).get(point, "")) for guarantee in _GUARANTEES))


def _head(cells: list[str]) -> Iterable[str]:
    yield _row(*cells)
    yield _row(*(["---"] * len(cells)))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
