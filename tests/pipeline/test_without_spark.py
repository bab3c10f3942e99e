"""`python -m pipeline` without Spark, as after `make install`: no traceback, but the command that installs it."""

import subprocess
import sys
from pathlib import Path

from pipeline import without_spark
from pipeline.jobs import JOBS

ROOT = Path(__file__).parents[2]
#: Spark is there when tests run: `find_spec` does not see it.
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


def test_help_lists_the_commands_and_says_how_to_install_spark() -> None:
    said = pipeline("--help")

    assert said.returncode == 0
    assert all(f"  {name} " in said.stdout for name in JOBS)
    assert "make install NAME=pipeline" in said.stdout


def test_a_command_is_refused_in_a_sentence() -> None:
    said = pipeline("ledger", "/anywhere")

    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.splitlines() == [without_spark._HOW]


def test_the_commands_listed_are_those_that_there_are() -> None:
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in without_spark.commands()}

    assert listed == {name: (job.__doc__ or "").splitlines()[0] for name, job in JOBS.items()}
