"""The floor plan: few folders, files of a readable size, one name for one thing, no import cycles.

Each limit is today's value; GOALS has the values to reach.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import grimp

from app.settings.settings import Settings

_TREE = Path(__file__).parents[2]
_PACKAGES = ("app", "pipeline", "punctual", "tables")
_FILES = [path.relative_to(_TREE) for package in _PACKAGES for path in sorted((_TREE / package).rglob("*.py"))]

GOALS = {"rooms": 10, "lines": 300, "small files": 60, "names twice": 15, "settings": 60, "circles": 0}
LIMITS = {"rooms": 10, "lines": 300, "small files": 60, "names twice": 15, "settings": 60, "circles": 0}
_SMALL = 50
#: Class names that may stand for two things, with the reason.
_MAY_BE_TWICE: Mapping[str, str] = {
    "Message": "public API: the contract's message, and what a program gets from a DelayQueue",
    "Record": "public API: a record of Kafka, and one that a test's fixture has delivered",
}


@cache
def _text(path: Path) -> str:
    return (_TREE / path).read_text("utf-8")


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def test_the_worker_has_few_rooms() -> None:
    rooms = {path.name for path in (_TREE / "app").iterdir()} - {"__init__.py", "py.typed", "__pycache__"}

    assert len(rooms) <= LIMITS["rooms"], f"Put the code into one of the folders of app: {sorted(rooms)}"


def test_no_file_is_long() -> None:
    assert _FILES
    long = {str(path): lines for path in _FILES if (lines := _lines(path)) > LIMITS["lines"]}

    assert not long, f"Split files of more than {LIMITS['lines']} lines by subject: {long}"


def test_few_files_are_small() -> None:
    small = {
        str(path): lines
        for path in _FILES
        if path.parts[0] == "app" and path.name != "__init__.py" and (lines := _lines(path)) < _SMALL
    }

    assert len(small) <= LIMITS["small files"], (
        f"app has {len(small)} files of fewer than {_SMALL} lines, and at most {LIMITS['small files']} are allowed. "
        f"Put the code into a file that uses it: {small}"
    )


def test_few_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in _FILES:
        for name in re.findall(r"^ *class (\w+)\b.*:$", _text(path), re.MULTILINE):
            if name not in _MAY_BE_TWICE:
                places[name].append(str(path))
    twice = {name: where for name, where in places.items() if len(where) > 1}

    assert len(twice) <= LIMITS["names twice"], f"Rename a class: {twice}"


def test_there_are_few_settings() -> None:
    names = {setting.metadata["env"] for setting in Settings.declared()}

    assert names
    assert len(names) <= LIMITS["settings"], (
        f"There are {len(names)} settings, and at most {LIMITS['settings']} are allowed. Choose a value that suits "
        "everybody, or remove a setting that is no longer needed."
    )


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph(*_PACKAGES, cache_dir=str(_TREE / ".import_linter_cache"))
    circles = list(_circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}))

    assert len(circles) <= LIMITS["circles"], circles


def test_a_circle_is_found() -> None:
    assert list(_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == [["b", "c"]]
    assert list(_circles({"a": {"b"}, "b": set()})) == []


def test_modules_that_a_package_lists_are_in_it() -> None:
    for path in _FILES:
        if path.name == "__init__.py":
            listed = re.findall(r"^(?: {4})?(\w+)  ", ast.get_docstring(_parsed(path)) or "", re.MULTILINE)
            folder = _TREE / path.parent
            assert not [
                one
                for one in listed
                if not (folder / one / "__init__.py").is_file() and not (folder / f"{one}.py").is_file()
            ]


def test_limits_are_no_lower_than_goals() -> None:
    assert LIMITS.keys() == GOALS.keys()
    assert all(LIMITS[name] >= goal for name, goal in GOALS.items())


def _lines(path: Path) -> int:
    return _text(path).count("\n")


def _circles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield the groups of modules that reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                yield from visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                yield sorted(group)

    for module in sorted(graph):
        if module not in order:
            yield from visit(module)
