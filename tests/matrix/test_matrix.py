"""docs/reference/compatibility.md says what `make test NAME=matrix` found; the suite itself runs a part of that."""

from pathlib import Path

import pytest

from app.dev.broker import Broker
from app.dev.broker.jars import versions
from tests.matrix.__main__ import CONTRACT, GUARANTEES, PAGE, load, run, with_table

_RESULTS = load()
_TOO_LARGE = "test_what_a_destination_finds_too_large_is_picked_out_of_its_batch"
#: What the page says of these: each ran on a machine with 10 to 20 processes for each core.
_FAILS = {("3.6.2", "exactly_once"): [_TOO_LARGE], ("4.0.2", "exactly_once"): [_TOO_LARGE]}
_SHORT = ("tests/integration/test_commands.py", "tests/integration/test_bytes.py")


def test_the_table_is_that_of_the_results() -> None:
    page = PAGE.read_text("utf-8")
    assert with_table(page, _RESULTS) == page


def test_what_has_failed_is_what_the_page_says() -> None:
    pairs = [(version, guarantee) for version in versions() for guarantee in GUARANTEES]
    for one in _RESULTS:
        pair = one["version"], one["guarantee"]
        assert pair in pairs
        assert [name.rpartition("::")[2] for name in one["failed"]] == _FAILS.get(pair, [])
        assert one["passed"] > 150


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
