"""The fast tests of the whole tree or of one part: `make check`, `make check ONLY=app/engine/ingest`.

Tests mirror the code: the tests of `app/engine/ingest` are in `tests/app/engine/ingest`, those of `tables/store.py` in
`tests/tables/test_store.py` and `tests/tables/test_store_*.py`. Format, lint rules, types and import layers are checked
for the whole tree before that, which takes seconds.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TREE = Path(__file__).parents[1]
_TESTS = Path("tests")
_FAST = "not (slow or kafka or core)"
#: With Spark, the tests of the pipeline that need no broker; they are slow because Spark takes seconds to start.
_OF_PIPELINE = "not kafka"
#: Tests wait for a third of their time, so that two cores have work for four processes.
_PARALLEL = ("-n", "4")
#: A second process costs more than it saves where there are few files.
_FEW = 12
_USAGE = 2
#: Tests that need a module which `make check` does not install. `make test` runs the quick ones.
NEEDS = {
    "tests/pipeline/": "pyspark",
    "tests/docs/test_dag.py": "pyspark",
    "tests/docs/test_pipeline_commands.py": "pyspark",
    "tests/deploy/test_dashboard_schema.py": "grafana_foundation_sdk",
    "tests/punctual/contract/test_cron_zones.py": "numpy",
}
#: Slow tests: they need more than `make check` installs, or start whole programs.
SLOW = (*NEEDS, "tests/integration/")


def tests_of(part: Path) -> list[Path]:
    """Return the test files and folders of a file or folder: those of the folder above if it has none of its own.

    Raises:
        LookupError: the file or folder does not exist, or has no tests.
    """
    if ".." in part.parts or not (TREE / part).exists():
        raise LookupError(f"There is no file or folder {part} in this tree. Try: make check ONLY=app/engine/ingest")
    if part.parts[:1] == _TESTS.parts:
        return [part]
    mirror = _TESTS / (part.parent if part.name == "__init__.py" else part.with_suffix(""))
    for place in (mirror, *mirror.parents):
        if place == _TESTS:
            break
        folder, name = TREE / place.parent, place.name
        named = sorted([*folder.glob(f"test_{name}.py"), *folder.glob(f"test_{name}_*.py")])
        found = [place] if (TREE / place).is_dir() else []
        found += [file.relative_to(TREE) for file in named]
        if found:
            return found
    raise LookupError(f"There are no tests of {part}. To run all fast tests: make check")


def arguments(parts: list[Path]) -> list[str]:
    """Return the arguments of pytest for the fast tests of some parts, or of all; none if Spark is missing."""
    if not parts:
        slow = (f"--ignore={TREE / path}" for path in SLOW)  # importing them takes as long as many tests
        return [*_PARALLEL, "-m", _FAST, *slow]
    paths = list(dict.fromkeys(path for part in parts for path in tests_of(part)))
    files = sum(len(list((TREE / path).rglob("test_*.py"))) or 1 for path in paths)
    of_pipeline = all(path.is_relative_to(_TESTS / "pipeline") for path in paths)
    if of_pipeline and find_spec("pyspark") is None:
        return []
    chosen = _OF_PIPELINE if of_pipeline else _FAST
    return [*(_PARALLEL if files > _FEW else ("-n", "0")), "-m", chosen, *map(str, paths)]


def main(names: list[str]) -> int:
    """Run the fast tests of the parts that are named; return pytest's exit code, or 2 if a name is wrong."""
    try:
        chosen = arguments([Path(os.path.normpath(name)) for name in names])
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return _USAGE
    none = pytest.ExitCode.NO_TESTS_COLLECTED
    code = pytest.main(["-q", "--hypothesis-profile=check", *chosen]) if chosen else none
    if code == none:
        sys.stderr.write("No fast test is there: these need a broker, Spark or a browser. `make test` runs them.\n")
        return 0
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
