"""A program of ours in a process of its own, which a test kills and starts again."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from app.dev.broker.process import GuardedProcess
from tests.harness.waiting import eventually

ROOT = Path(__file__).parents[2]
#: So much of a log is shown where a test fails.
_SHOWN = 5_000


class Program:
    """Runs `python <words>`, or the words as they are; it ends when the `with` block does, or this process."""

    def __init__(self, log: Path, *words: str, env: Mapping[str, str] | None = None, python: bool = True) -> None:
        self._log, self._env = log, dict(env or {})
        self._command = [*([sys.executable] if python else []), *words]
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _: object, error: object, __: object) -> None:
        if error is not None and self._log.exists():
            sys.stdout.write(f"The end of {self._log}:\n{self.log[-_SHOWN:]}\n")  # pytest shows it with the failure
        self.kill()

    @property
    def log(self) -> str:
        """The log."""
        return self._log.read_text(errors="replace", encoding="utf-8")

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.exit_code() is None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "it has not started yet"
        return self._process.pid

    def start(self) -> Self:
        """Start it; does not wait."""
        assert self._process is None, "it has been started"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        said = [f"{name}={value}" for name, value in {"PYTHONPATH": str(ROOT), **self._env}.items()]
        with self._log.open("ab") as log:
            self._process = GuardedProcess(["env", *said, *self._command], log, None)
        return self

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs, and return when it is gone."""
        self._end(kill=True)

    def stop(self) -> int | None:
        """Stop it with SIGTERM, however long that takes on a crowded machine; return its exit code."""
        return self._end(kill=False)

    def _end(self, *, kill: bool) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        if process.exit_code() is None:
            os.kill(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            eventually(lambda: process.exit_code() is not None, what="the program's end")
        finally:
            process.stop()
        return process.exit_code()
