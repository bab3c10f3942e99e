"""A run with both paths: they take turns, and say of each figure whose it is."""

import os

import pytest

from benchmarks import kernel, run
from benchmarks.figures import Figures
from benchmarks.kernel import Kernel
from benchmarks.options import Options, parse
from benchmarks.result import Result
from benchmarks.sizes import Sizes
from tests.benchmarks.test_page import MACHINE


class Experiments:
    """Stand for those of a broker: they record which path the workers take."""

    def __init__(self, says: Kernel | None = None) -> None:
        self.done: list[str] = []
        self._says = says

    def of_a_worker(self, _: str, __: Sizes) -> Figures:
        told: Kernel = "on" if os.environ.get(kernel.VARIABLE) == "require" else "off"
        kernel.note(self._says or told)
        self.done.append(f"worker {told}")
        return {"soak": {"p50_ms": 2.0 if told == "on" else 4.0}}

    def of_another_system(self, _: str, __: Sizes) -> Figures:
        self.done.append("streams")
        return {"streams": {"p50_ms": 5.0}}


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> Experiments:
    return install(Experiments(), monkeypatch)


def install(made: Experiments, monkeypatch: pytest.MonkeyPatch) -> Experiments:
    listed = {made.of_a_worker: ("soak",), made.of_another_system: ("streams",)}
    monkeypatch.setattr(run, "EXPERIMENTS", listed)
    monkeypatch.setattr(run, "_warm_up", lambda _options, _bootstrap: None)
    monkeypatch.setattr("benchmarks.calibration.loop_s", lambda: 0.1)
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    kernel.take_reported()
    return made


def measured(options: Options) -> list[Result]:
    return run.run(options, "kafka:9092", MACHINE)


def test_both_paths_take_turns_and_other_systems_are_measured_once_a_run(experiments: Experiments) -> None:
    python, compiled = measured(parse(["--only", "soak,streams", "--kernel", "both", "--runs", "2"]))

    assert experiments.done == ["worker off", "worker on", "streams", "worker on", "worker off", "streams"]
    assert (python.kernel, compiled.kernel) == ("off", "on")
    assert (python.figures["soak"], compiled.figures["soak"]) == ({"p50_ms": 4.0}, {"p50_ms": 2.0})
    assert "streams" not in python.figures
    assert compiled.figures["streams"] == {"p50_ms": 5.0}


def test_without_the_option_workers_say_which_path_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    install(Experiments(says="on"), monkeypatch)

    [result] = measured(parse(["--only", "soak,streams"]))

    assert result.kernel == "on"
