"""Figures name the path that was measured, or there are none."""

import os
from collections.abc import Iterator

import pytest

from benchmarks import kernel
from benchmarks.errors import KernelMissing


@pytest.fixture(autouse=True)
def _without_reports() -> Iterator[None]:
    kernel.take_reported()
    yield
    kernel.take_reported()


def test_workers_get_the_variable_during_the_measurement_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel.VARIABLE, "auto")
    values = []
    for path in ("on", "off", None):
        with kernel.require(path):
            values.append(os.environ[kernel.VARIABLE])

    assert values == ["require", "off", "auto"]
    assert os.environ[kernel.VARIABLE] == "auto"


def test_an_unset_variable_is_unset_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    with kernel.require("off"):
        pass

    assert kernel.VARIABLE not in os.environ


def test_the_path_is_the_one_that_workers_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    kernel.note("on")
    kernel.note("on")

    assert kernel.take_reported() == "on"
    assert kernel.take_reported() is None


def test_a_worker_on_another_path_than_requested_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel.VARIABLE, "require")

    with pytest.raises(KernelMissing, match="must be on in all workers, and they report: off"):
        kernel.note("off")


def test_both_paths_at_once_give_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    kernel.note("off")

    with pytest.raises(KernelMissing, match="in all workers, and they report: off, on"):
        kernel.note("on")
