"""Figures name the path that was measured, or there are none."""

import os
from collections.abc import Iterator

import pytest

from benchmarks import kernel
from benchmarks.errors import KernelMissing


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    kernel.taken()
    yield
    kernel.taken()


def test_workers_get_the_variable_during_the_measurement_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel.VARIABLE, "auto")
    said = []
    for wanted in ("on", "off", None):
        with kernel.told(wanted):
            said.append(os.environ[kernel.VARIABLE])

    assert said == ["require", "off", "auto"]
    assert os.environ[kernel.VARIABLE] == "auto"


def test_an_unset_variable_is_unset_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    with kernel.told("off"):
        pass

    assert kernel.VARIABLE not in os.environ


def test_the_path_is_what_workers_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    kernel.note("on")
    kernel.note("on")

    assert kernel.taken() == "on"
    assert kernel.taken() is None


def test_a_worker_on_another_path_than_requested_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernel.VARIABLE, "require")

    with pytest.raises(KernelMissing, match="must be on in all workers, and they report: off"):
        kernel.note("off")


def test_both_paths_at_once_give_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    kernel.note("off")

    with pytest.raises(KernelMissing, match="in all workers, and they report: off, on"):
        kernel.note("on")
