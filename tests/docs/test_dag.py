"""The examples for Airflow and Dagster: they load, and their tasks are command lines that the pipeline takes."""

import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Self

import pytest

from pipeline.__main__ import parser
from pipeline.jobs import JOBS

DOCS = Path(__file__).parents[2] / "docs/how-to"
DAG_FILE, DAGSTER_FILE = DOCS / "punctual_dag.py", DOCS / "punctual_dagster.py"
COMMANDS = {"bulk", "promote", "park", "ledger", "rescue", "reconcile"}


class _Task:
    """Stands for an operator: remembers its options and the tasks before it."""

    made: list["_Task"]

    def __init__(self, **options: Any) -> None:
        self.options, self.after = options, []  # type: ignore[var-annotated]
        self.made.append(self)

    def __rshift__(self, other: "_Task") -> "_Task":
        other.after.append(self.options["task_id"])
        return other


class _Dag:
    def __init__(self, name: str, **options: Any) -> None:
        assert {"schedule", "start_date", "max_active_runs"} <= set(options), name
        assert options["max_active_runs"] == 1, "on object stores, only this keeps two runs apart"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_each_task_is_a_command_line_that_the_pipeline_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    _Task.made = []
    standard = "airflow.providers.standard.operators"
    stands = {"airflow.sdk": {"DAG": _Dag}}
    stands |= {f"{standard}.bash": {"BashOperator": _Task}, f"{standard}.python": {"ShortCircuitOperator": _Task}}  # type: ignore[dict-item]
    for name, members in stands.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            monkeypatch.setitem(sys.modules, path, sys.modules.get(path) or ModuleType(path))
        vars(sys.modules[name]).update(members)

    loaded = runpy.run_path(str(DAG_FILE))

    tasks = {task.options["task_id"]: task for task in _Task.made}
    lines = {name: task.options.get("bash_command", "") for name, task in tasks.items()}
    ours = {name: line.partition("python -m pipeline ")[2] for name, line in lines.items() if "-m pipeline" in line}
    for name, words in ours.items():
        assert parser(JOBS).parse_args(shlex.split(words.replace("{{ ds }}", "2027-01-01"))).command == name
    assert set(ours) == COMMANDS
    assert tasks["reconcile"].after == ["rescue"]
    assert loaded["some_were_rejected"]('{"counts": {"rejected": 1}}')
    assert not loaded["some_were_rejected"]('{"counts": {"rejected": 0}}')


def _operation(**options: Any) -> Callable[..., Callable[..., None]]:
    """Stand for Dagster's `op`: the operation runs when its job is defined."""
    assert options["retry_policy"]
    shown = SimpleNamespace(add_output_metadata=lambda counts: counts)
    return lambda function: lambda **_: function(shown)


def _job(function: Callable[[], None] | None = None, **_: Any) -> Any:
    return _job if function is None else function()


def test_each_operation_of_dagster_runs_a_command_line_that_the_pipeline_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[list[str]] = []

    def run(line: list[str], **options: Any) -> SimpleNamespace:
        assert options["env"]["KAFKA_BOOTSTRAP_SERVERS"]
        lines.append(line[line.index("pipeline") + 1 :])
        return SimpleNamespace(returncode=0, stdout='{"counts": {"rows": 1}}')

    dagster = ModuleType("dagster")
    values = ("Definitions", "In", "RetryPolicy", "ScheduleDefinition")
    vars(dagster).update(dict.fromkeys(values, lambda *_, **options: options or True))
    vars(dagster).update(Failure=RuntimeError, Nothing=None, OpExecutionContext=None, op=_operation, job=_job)
    monkeypatch.setitem(sys.modules, "dagster", dagster)
    monkeypatch.setattr(subprocess, "run", run)

    loaded = runpy.run_path(str(DAGSTER_FILE))

    assert {parser(JOBS).parse_args(line).command for line in lines} == COMMANDS
    assert [line[0] for line in lines[-3:]] == ["ledger", "rescue", "reconcile"]
    assert len(loaded["defs"]["schedules"]) == len(loaded["defs"]["jobs"])
