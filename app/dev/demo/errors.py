"""What ends the demonstration before anyone asked it to.

DemoError
├── PortTakenError       a worker's web port is in use
├── WorkerDiedError      a worker ended by itself
└── WorkerNotReadyError  a worker runs but does not become ready
"""

from pathlib import Path


class DemoError(Exception):
    """Anything that ends the demonstration early."""


class WebPortTakenError(DemoError):
    """A worker's web port is in use."""

    def __init__(self, port: int) -> None:
        """Name the port."""
        super().__init__(
            f"Port {port} is in use. Stop the process that listens there, or choose another port with --port."
        )


class WorkerDiedError(DemoError):
    """A worker ended by itself."""

    def __init__(self, code: int, log: Path) -> None:
        """Name the exit code and the log, with its last lines."""
        super().__init__(f"The worker ended with exit code {code}. See its log {log}, which ends with:\n{_tail(log)}")


class WorkerNotReadyError(DemoError):
    """A worker runs but does not become ready."""

    def __init__(self, seconds: float, reason: str, log: Path) -> None:
        """Name the worker's own reason and its log."""
        super().__init__(f"The worker is not ready after {seconds:.0f} s ({reason}). See its log {log}.")


def _tail(log: Path) -> str:
    return "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-8:])
