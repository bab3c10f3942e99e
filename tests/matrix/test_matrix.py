"""docs/reference/compatibility.md has the results of `make test NAME=matrix`; the suite itself runs a part."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.dev.broker import Broker
from app.dev.broker.jars import versions
from tests.matrix.__main__ import CONTRACT, GUARANTEES, PAGE, _pytest, load, run, with_table

_RESULTS = load()
_SHORT = ("tests/integration/test_commands.py", "tests/integration/test_bytes.py")


def test_the_table_is_that_of_the_results() -> None:
    page = PAGE.read_text("utf-8")
    assert with_table(page, _RESULTS) == page


def test_no_test_has_failed() -> None:
    pairs = [(version, guarantee) for version in versions() for guarantee in GUARANTEES]
    for one in _RESULTS:
        assert (one["version"], one["guarantee"]) in pairs
        assert not one["failed"]
        assert one["passed"] > 150


def test_that_records(record_property: Callable[[str, object], None]) -> None:
    record_property("kept", "in the report")


@pytest.mark.core
def test_a_failed_test_that_records_something_can_be_run_again() -> None:
    name = "tests/matrix/test_matrix.py::test_that_records"
    assert _pytest("", versions()[0], "exactly_once", "-n", "0", name) == {name: "passed"}


def test_the_tests_of_the_contract_are_there() -> None:
    root = Path(__file__).parents[2]
    for path, _, name in (one.partition("::") for one in CONTRACT):
        assert f"def {name or 'test_'}" in (root / path).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("version", "guarantee"), [(versions()[0], "exactly_once"), (versions()[-1], "at_least_once")])
def test_commands_and_bytes_on_the_oldest_and_the_newest_version(
    version: str, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_VERSION", version)
    with Broker() as broker:
        result = run(broker.bootstrap, version, guarantee, _SHORT)

    assert not result["failed"]
    assert not result["skipped"]
    assert result["passed"] > 30
