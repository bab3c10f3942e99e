"""Interrupts commands of the pipeline at named points of their writes, and runs them again."""

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

#: The number of interruptions at each point in this process, and the number of killed processes of each command.
KILLS = int(os.environ.get("KILLS", "1"))
_HOOKED_PIPELINE = str(ROOT / "tests" / "harness" / "hooked_pipeline.py")
_TIMEOUT_S = 300


class Interrupter(ABC):
    """Runs and interrupts commands of one installation; `interruptions` counts them by point."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        self.interruptions: Counter[str] = Counter()

    @abstractmethod
    def points(self, *jobs: str) -> list[str]:
        """Return the points at which a test interrupts these commands."""

    @abstractmethod
    def run(self, job: ModuleType, *arguments: str) -> int:
        """Run a command to its end; return its exit code."""

    @abstractmethod
    def interrupt(self, point: str, job: ModuleType, *arguments: str) -> bool:
        """Run a command and interrupt it when it reaches a point; return whether it did."""


class InProcessInterrupter(Interrupter):
    """Cuts off commands in this process, where each takes only a second."""

    def __init__(self, context: JobContext, patch: pytest.MonkeyPatch) -> None:
        super().__init__(context)
        self._patch = patch

    def points(self, *jobs: str) -> list[str]:
        """Return all points of these commands, each `KILLS` times."""
        return points_of(*jobs) * KILLS

    def run(self, job: ModuleType, *arguments: str) -> int:
        """Run a command to its end; return its exit code."""
        parser = argparse.ArgumentParser()
        job.add_options(parser)
        context = JobContext(self.context.spark, self.context.kafka, self.context.app_id)
        return int(job.run(context, parser.parse_args(arguments, argparse.Namespace(app_id=context.app_id))) or 0)

    def interrupt(self, point: str, job: ModuleType, *arguments: str) -> bool:
        """Run a command and cut it off when it reaches a point; return whether it did."""
        before = self.interruptions[point]

        def crash() -> None:
            self.interruptions[point] += 1
            if threading.current_thread() is threading.main_thread():
                raise CutOff
            self.context.spark.sparkContext.cancelAllJobs()  # The thread that watches a write interrupts it.

        with self._patch.context() as patch:
            install(Points(_name(job), point, crash), patch.setattr)
            try:
                self.run(job, *arguments)
            except CutOff:
                pass
            except Exception as error:
                if "cancelled" not in str(error):
                    raise
        return self.interruptions[point] > before


class ProcessKiller(Interrupter):
    """Kills commands that run in their own process with their own Java, both with SIGKILL.

    Args:
        context: the installation.
        env: the environment variables of the commands.
        log: the file for the output of the commands.
    """

    def __init__(self, context: JobContext, env: Mapping[str, str], log: Path) -> None:
        super().__init__(context)
        self._env, self._log = env, log

    def points(self, *jobs: str) -> list[str]:
        """Return `KILLS` points of each command, beginning with its first."""
        return [point for job in jobs for point in itertools.islice(itertools.cycle(points_of(job)), KILLS)]

    def run(self, job: ModuleType, *arguments: str) -> int:
        """Run a command to its end; return its exit code."""
        return self._process("-m", "pipeline", _name(job), *arguments)

    def interrupt(self, point: str, job: ModuleType, *arguments: str) -> bool:
        """Run a command that kills itself when it reaches a point; return whether it did."""
        code = self._process(_HOOKED_PIPELINE, _name(job), *arguments, point=point)
        assert code in (0, -signal.SIGKILL), self._log.read_text("utf-8")[-3_000:]
        self.interruptions[point] += code != 0
        return code != 0

    def _process(self, *arguments: str, point: str = "") -> int:
        installation = ("--bootstrap", self.context.kafka.bootstrap, "--app-id", self.context.app_id)
        command = [sys.executable, *arguments, *installation, "--master", "local[2]", "--memory", "1g"]
        environment = {**self._env, "PYTHONPATH": str(ROOT), "HOOK_CRASH_AT": point}
        with self._log.open("ab") as log:
            process = subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=_TIMEOUT_S, check=False)
        return process.returncode


def _name(job: ModuleType) -> str:
    return job.__name__.rpartition(".")[2]
