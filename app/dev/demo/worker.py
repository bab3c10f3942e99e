"""A worker as its own process, started as users do: `faust -A app worker`.

DemoError                  the demonstration ends early
├── WebPortTakenError      a worker's web port is in use
├── WorkerDiedError        a worker exited by itself
└── WorkerNotReadyError    a worker runs but does not become ready
"""

import asyncio
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import aiohttp

from app.dev.broker.process import GuardedProcess


class DemoError(Exception):
    """An error that ends the demonstration early."""


class WebPortTakenError(DemoError):
    """A worker's web port is in use."""

    def __init__(self, port: int) -> None:
        """Name the port."""
        super().__init__(
            f"Port {port} is in use. Stop the process that listens there, or choose another port with --port."
        )


class WorkerDiedError(DemoError):
    """A worker exited by itself."""

    def __init__(self, code: int, log: Path) -> None:
        """Name the exit code and the log, with its last lines."""
        super().__init__(f"The worker ended with exit code {code}. See its log {log}, which ends with:\n{_tail(log)}")


class WorkerNotReadyError(DemoError):
    """A worker runs but does not become ready."""

    def __init__(self, seconds: float, reason: str, log: Path) -> None:
        """Name the worker's own reason, and its log."""
        super().__init__(f"The worker is not ready after {seconds:.0f} s ({reason}). See its log {log}.")


def _tail(log: Path) -> str:
    return "\n".join(f"  {line}" for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])


READY_TIMEOUT_S = 120.0  # a few seconds on an idle machine; with --data there may be much to recover
POLL_S = 0.2


class DemoWorker:
    """A worker, which ends gracefully with `stop`, and also when this process dies."""

    def __init__(self, directory: Path, port: int, settings: Mapping[str, str], *, temporary: bool) -> None:
        """Describe a worker: the directory of its data and log, its web port, its settings as environment variables.

        A `temporary` directory is removed if this process dies without stopping the worker.
        """
        self.url = f"http://127.0.0.1:{port}/"
        self.log = directory / "worker.log"
        self._port = port
        self._remove = directory if temporary else None
        self._settings = {**settings, "PORT": str(port), "DATADIR": str(directory / "data")}
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Start it without waiting. Raises WebPortTakenError if its port is in use."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self._port))
            except OSError as error:
                raise WebPortTakenError(self._port) from error
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # The guard passes its own environment on; env(1) adds this worker's settings.
        command = [shutil.which("env") or "env", *(f"{name}={value}" for name, value in self._settings.items())]
        command += [sys.executable, "-m", "faust", "-A", "app", "worker", "-l", "warn"]
        with self.log.open("ab") as log:
            self._process = GuardedProcess(command, log, self._remove)

    def check(self) -> None:
        """Raise WorkerDiedError if it has exited."""
        code = None if self._process is None else self._process.exit_code()
        if code is not None:
            raise WorkerDiedError(code, self.log)

    async def wait_ready(self) -> None:
        """Return when it is ready. Raises WorkerDiedError or WorkerNotReadyError."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
            while (reason := await self._missing(session)) is not None:
                self.check()
                if time.monotonic() > deadline:
                    raise WorkerNotReadyError(READY_TIMEOUT_S, reason, self.log)
                await asyncio.sleep(POLL_S)

    async def _missing(self, session: aiohttp.ClientSession) -> str | None:
        try:
            async with session.get(f"{self.url}health/ready") as answer:
                return None if answer.status == HTTPStatus.OK else await answer.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"its web port does not answer: {error!r}"

    def stop(self) -> None:
        """End it with SIGTERM, or with SIGKILL if that takes long."""
        if self._process is not None:
            self._process.stop()
            self._process = None
