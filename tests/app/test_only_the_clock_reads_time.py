"""A worker reads the time in one place, app/base/clock.py: there its tests and the simulation move the hands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Modules that run outside a worker, or outside its loop.
ELSEWHERE = {
    "app/base/clock.py": "the one place",
    "app/dev/demo": "shows a worker to a person",
    "app/dev/broker": "starts the development broker",
    "app/engine/engine.py": "housekeeping, once a minute and once an hour",
    "punctual/cli": "runs in a terminal of its users",
    "punctual/queue": "runs in programs of its users",
    "punctual/security": "asks for tokens in threads, for programs of its users too",
    "app/base/process/watchdog.py": "a thread that looks at the loop from outside",
}
_NOW = {"now", "utcnow", "today"}
#: A module without any of these words is not parsed, because parsing takes ten times as long.
_MAYBE = re.compile(r"\b(?:import.*|from\s+)\btime\b|\b(?:now|utcnow|today)\b")


def reads(source: str) -> Iterator[str]:
    """Yield the places in a module that read the time."""
    if not _MAYBE.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name == "time")
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield "time"
        elif isinstance(node, ast.Attribute) and node.attr in _NOW:
            of = ast.unparse(node.value).rpartition(".")[2]
            if of in ("date", "datetime"):
                yield f"{of}.{node.attr}"


def test_no_module_but_the_clock_reads_the_time() -> None:
    found = {}
    for package in ("app", "punctual", "tables"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not any(name == place or name.startswith(f"{place}/") for place in ELSEWHERE):
                found[name] = list(reads(path.read_text("utf-8")))

    assert "tables/table.py" in found
    assert {name: what for name, what in found.items() if what} == {}


def test_what_reads_the_time_is_recognised() -> None:
    ways = (
        "import time",
        "from time import monotonic",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow",
        "date.today()",
    )

    assert all(list(reads(way)) for way in ways)
    assert not any(list(reads(way)) for way in ("loop.time()", "clock.now_ms()", "datetime.fromisoformat(text)"))
