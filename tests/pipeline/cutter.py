"""Ends commands of the pipeline at named points of their writes, and runs them again."""

import argparse
import itertools
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from pipeline.context import JobContext
from tests.harness.hooked_pipeline import CutOff, Points, install, points_of
from tests.harness.worker import ROOT

#: How often each point is passed in this process; and how many processes of each command are killed.
KILLS = int(os.environ.get("KILLS", "1"))
_HOOKED = str(ROOT / "tests" / "harness" / "hooked_pipeline.py")
_PATIENCE_S = 300


class Cutter(ABC):
    """Runs commands of one installation and ends them; `cuts` counts the points."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.cuts: Counter[str] = Counter()

    @abstractmethod
    def points(self, *jobs: str) -> list[str]:
        """Return the points at which these commands are ended."""

    @abstractmethod
    def run(self, job: ModuleType, *words: str) -> int:
        """Run a command to its end; return its exit code."""

    @abstractmethod
    def cut(self, point: str, job: ModuleType, *words: str) -> bool:
        """Run a command and end it when it reaches a point; return whether it did."""


class CutterHere(Cutter):
    """Cuts commands off in this process, which takes a second."""

    def __init__(self, context: JobContext, patch: pytest.MonkeyPatch) -> None:
        super().__init__(context)
        self._patch = patch

    def points(self, *jobs: str) -> list[str]:
        """Return each of these points as many times as it is passed."""
        return points_of(*jobs) * KILLS

    def run(self, job: ModuleType, *words: str) -> int:
        """Run a command to its end; return its exit code."""
        parser = argparse.ArgumentParser()
        job.add_options(parser)
        context = JobContext(self.context.spark, self.context.kafka, self.context.app_id)
        return int(job.run(context, parser.parse_args(words, argparse.Namespace(app_id=context.app_id))) or 0)

    def cut(self, point: str, job: ModuleType, *words: str) -> bool:
        """Run a command and cut it off when it reaches a point; return whether it did."""
        before = self.cuts[point]

        def crash() -> None:
            self.cuts[point] += 1
            if threading.current_thread() is threading.main_thread():
                raise CutOff
            self.context.spark.sparkContext.cancelAllJobs()  # in the middle of a write, by the thread that watches it

        with self._patch.context() as patch:
            install(Points(_name(job), point, crash), patch.setattr)
            try:
                self.run(job, *words)
            except CutOff:
                pass
            except Exception as error:
                if "cancelled" not in str(error):
                    raise
        return self.cuts[point] > before


class Killer(Cutter):
    """Kills commands that have a process and a Java of their own, both with SIGKILL.

    Args:
        context: the installation.
        env: the environment of these processes.
        log: the file for the output of these processes.
    """

    def __init__(self, context: JobContext, env: Mapping[str, str], log: Path) -> None:
        super().__init__(context)
        self._env, self._log = env, log

    def points(self, *jobs: str) -> list[str]:
        """Return a number of points of each command, the first one in the middle of a write."""
        return [point for job in jobs for point in itertools.islice(itertools.cycle(points_of(job)), KILLS)]

    def run(self, job: ModuleType, *words: str) -> int:
        """Run a command to its end; return its exit code."""
        return self._process("-m", "pipeline", _name(job), *words)

    def cut(self, point: str, job: ModuleType, *words: str) -> bool:
        """Run a command that kills itself when it reaches a point; return whether it did."""
        code = self._process(_HOOKED, _name(job), *words, point=point)
        assert code in (0, -signal.SIGKILL), self._log.read_text("utf-8")[-3_000:]
        self.cuts[point] += code != 0
        return code != 0

    def _process(self, *words: str, point: str = "") -> int:
        where = ("--bootstrap", self.context.kafka.bootstrap, "--app-id", self.context.app_id)
        command = [sys.executable, *words, *where, "--master", "local[2]", "--memory", "1g"]
        environment = {**self._env, "PYTHONPATH": str(ROOT), "HOOK_CRASH_AT": point}
        with self._log.open("ab") as log:
            done = subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=_PATIENCE_S, check=False)
        return done.returncode


def _name(job: ModuleType) -> str:
    return job.__name__.rpartition(".")[2]
