"""`python -m pipeline` without Spark, as after `make install`, prints the command that installs Spark."""

import subprocess
import sys
from pathlib import Path

from pipeline import without_spark
from pipeline.jobs import JOBS

ROOT = Path(__file__).parents[2]
#: Tests run with Spark, so this script hides it from `find_spec`.
WITHOUT_SPARK = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pyspark" else find(name, *more)
sys.argv[0] = "pipeline"
runpy.run_module("pipeline", run_name="__main__")
"""


def pipeline(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT_SPARK, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_help_lists_the_commands_and_shows_how_to_install_spark() -> None:
    process = pipeline("--help")

    assert process.returncode == 0
    assert all(f"  {name} " in process.stdout for name in JOBS)
    assert "make install NAME=pipeline" in process.stdout


def test_a_command_fails_with_one_line() -> None:
    process = pipeline("ledger", "/anywhere")

    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.splitlines() == [without_spark._HOW]


def test_help_lists_all_commands() -> None:
    descriptions = {line.split()[0]: line.split(maxsplit=1)[1] for line in without_spark.commands()}

    assert descriptions == {name: (job.__doc__ or "").splitlines()[0] for name, job in JOBS.items()}
