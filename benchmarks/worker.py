"""The worker that is measured: a process of its own, started as anyone starts one, configured by the environment."""

import os
import re
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

from app.dev.broker.ports import free_port
from app.dev.broker.process import GuardedProcess
from app.ops.multiprocess.plan import PORTS_FROM
from benchmarks.clock import now_ms, wait_for
from benchmarks.errors import ProcessFailed
from benchmarks.kernel import Kernel

ROOT = Path(__file__).parents[1]
_READY_S, _STOP_S = 600.0, 60.0
_LINES = 20
#: The port and the next ones, for up to five processes (app/ops/multiprocess/plan.py).
_ROOM = PORTS_FROM + 6
_KERNEL = re.compile(r'^delay_build_info\{[^}]*\bkernel="on"', re.MULTILINE)


def log_end(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:])


class Worker:
    """One worker and its data directory.

    Args:
        directory: for its data and its log; removed if this process dies.
        settings: environment variables, on top of this process's own.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.data, self._directory = directory / "data", directory
        self._log = directory / "worker.log"
        self._port = free_port(_ROOM)
        places = {"PORT": str(self._port), "DATADIR": str(self.data), "HOST": "127.0.0.1", "WORKER_URL": ""}
        self._settings = {**settings, **places, "PYTHONPATH": str(ROOT)}
        self._process: GuardedProcess | None = None

    @property
    def pid(self) -> int:
        """Its process id; it must run."""
        assert self._process is not None, "start it first"
        return self._process.pid

    @property
    def pids(self) -> Sequence[int]:
        """The process ids of all that it runs: its own, and those of further processes (DELAY_PROCESSES)."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        children = " ".join((task / "children").read_text("utf-8") for task in tasks)
        return [self.pid, *map(int, children.split())]

    @property
    def url(self) -> str:
        """The URL of its console."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> int:
        """Start it without waiting; return the time just before, in epoch milliseconds."""
        # Its guard passes this process's environment on; env(1) adds the worker's part and becomes the worker. It
        # keeps its bytecode, as where it is installed: a restart would take half as long again without.
        command = [shutil.which("env") or "env", "-u", "PYTHONDONTWRITEBYTECODE"]
        command += [f"{name}={value}" for name, value in self._settings.items()]
        command += [sys.executable, "-m", "faust", "-A", "app", "worker", "-l", "warning"]
        began = now_ms()
        with self._log.open("ab") as log:
            self._process = GuardedProcess(command, log, self._directory)
        return began

    def check(self) -> None:
        """Check that the worker runs. Raises ProcessFailed with the end of its log."""
        code = 0 if self._process is None else self._process.exit_code()
        if code is not None:
            raise ProcessFailed("worker", code, self.log_end())

    def log_end(self) -> str:
        """Return the last lines that it has said."""
        return log_end(self._log)

    def wait_ready(self) -> int:
        """Return once /health/ready says so, and return the time in epoch milliseconds."""

        def ready() -> bool:
            self.check()
            return self._answers()

        return wait_for(ready, _READY_S, "The worker's readiness")

    def kernel(self) -> Kernel:
        """Return whether it reports the use of the native extension; no report means "off"."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            return "on" if _KERNEL.search(answer.read().decode()) else "off"

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health/ready", timeout=2) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False

    def stop(self) -> None:
        """Stop it gracefully; return when it is gone."""
        os.kill(self.pid, signal.SIGTERM)
        self._reap()

    def kill(self) -> int:
        """Kill it with SIGKILL; return the time just before, in epoch milliseconds."""
        killed = now_ms()
        os.kill(self.pid, signal.SIGKILL)
        self._reap()
        return killed

    def wipe(self) -> None:
        """Lose its disk; it must not run."""
        assert self._process is None, "stop it first"
        shutil.rmtree(self.data)

    def close(self) -> None:
        """End it in whatever state it is, together with its directory."""
        if self._process is not None:
            # Further processes end in good order, and write till then: they are waited for.
            end = self._process.abandon if self._settings.get("DELAY_PROCESSES", "1") == "1" else self._process.stop
            end()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def _reap(self) -> None:
        process = self._process
        assert process is not None, "start it first"
        wait_for(lambda: process.exit_code() is not None, _STOP_S, "The worker's end")
        process.stop()
        self._process = None
