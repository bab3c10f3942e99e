"""The tool itself, on a real Kafka, small."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import AdminClient

from benchmarks.experiments import USUAL
from benchmarks.figures import KINDS
from benchmarks.result import Result
from tests.harness.waiting import LIMIT_S, PROGRAM_S, ask_until, eventually

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "benchmarks", "--smoke"]


def environment(bootstrap: str, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bootstrap, "TMPDIR": str(tmp_path)}


def smoke(bootstrap: str, tmp_path: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *more],
        cwd=ROOT,
        env=environment(bootstrap, tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def left_behind(admin: AdminClient, tmp_path: Path) -> list[str]:
    topics = [name for name in admin.list_topics(timeout=LIMIT_S).topics if name.startswith("bench-")]
    return [*topics, *(path.name for path in tmp_path.glob("punctual-bench-*"))]


@pytest.mark.slow
def test_a_run_measures_the_common_figures_and_leaves_no_files_behind(
    bootstrap: str, admin: AdminClient, tmp_path: Path
) -> None:
    saved = tmp_path / "results"

    run = smoke(bootstrap, tmp_path, "--save", str(saved))

    assert run.returncode == 0, run.stderr
    [path] = saved.iterdir()
    result = msgspec.json.decode(path.read_bytes(), type=Result)
    optional = {"net_rows_per_s"}  # of a restore too short to tell
    assert result.figures.keys() == {*USUAL, "calibration"}
    for group, figures in result.figures.items():
        kinds = KINDS[group]
        assert kinds.keys() - figures.keys() <= optional
        assert all(kind.label in run.stdout for name, kind in kinds.items() if name in figures)
    assert all(value >= 0 for figures in result.figures.values() for value in figures.values())
    assert left_behind(admin, tmp_path) == []


@pytest.mark.slow
def test_the_same_is_measured_in_several_circumstances(bootstrap: str, tmp_path: Path) -> None:
    run = smoke(bootstrap, tmp_path, "--only", "workers")

    assert run.returncode == 0, run.stderr
    for group in ("workers 1", "workers 2"):
        assert group in run.stdout


@pytest.mark.slow
def test_bursts_are_killed(bootstrap: str, admin: AdminClient, tmp_path: Path) -> None:
    run = smoke(bootstrap, tmp_path, "--only", "kill")

    assert run.returncode == 0, run.stderr
    assert "duplicates per kill, maximum" in run.stdout
    assert left_behind(admin, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_files_behind(
    how: signal.Signals, bootstrap: str, admin: AdminClient, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--only", "mixed"],
        cwd=ROOT,
        env=environment(bootstrap, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(
        lambda: any(name.endswith("-progress") for name in left_behind(admin, tmp_path)), what="the worker's start"
    )

    process.send_signal(how)
    _, said = process.communicate(timeout=PROGRAM_S)

    assert process.returncode == 130, said
    assert "nothing is left running" in said
    # Brokers confirm a deletion before every broker has forgotten the topics.
    ask_until(
        lambda: left_behind(admin, tmp_path),
        lambda left: not left,
        "the removal of everything that the run has created",
    )


@pytest.mark.core
def test_an_unusable_result_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    command = [*COMMAND, "--against", str(tmp_path / "missing.json"), "--save", str(tmp_path)]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_S, check=False)

    assert run.returncode == 1
    assert "is not a result" in run.stderr
    assert not list(tmp_path.iterdir())
