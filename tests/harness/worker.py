"""A worker process that a test starts, kills and starts again."""

import json
import os
import re
import shutil
import signal
import struct
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from app.dev.broker.process import GuardedProcess
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S, eventually

ROOT = Path(__file__).parents[2]
#: The guarantee of workers in tests that do not choose one.
GUARANTEE = os.environ.get("GUARANTEE") or "at_least_once"
_KILLED = 128 + signal.SIGKILL
#: Kept when the tables are wiped: a worker with another member id waits until the group has forgotten the old one.
_MEMBER = "member-id"


def await_sharing(*workers: "Worker") -> None:
    """Wait until each worker serves some partitions, and together they serve each partition once.

    The log of the first worker names all partitions until a second one has joined, so that it is not enough that each
    worker has an assignment.
    """

    def shared() -> bool:
        numbers = [worker.assigned for worker in workers]
        return all(numbers) and sorted(number for own in numbers for number in own) == [*range(workers[0].partitions)]

    def served() -> bool:
        return shared() and all(worker.ready()[0] for worker in workers)

    try:
        eventually(served, what="the sharing of the partitions")
    except AssertionError as error:
        error.add_note(str([(worker.assigned, worker.ready()) for worker in workers]))
        raise


class Worker:
    """One worker and its data directory; it ends when the `with` block does, or this process.

    Args:
        bootstrap: the cluster.
        app_id: the installation.
        data: its data directory; the log is next to it.
        partitions: of the installation.
        env: more settings.
        crash_at: a point at which it kills itself (tests/harness/hooked.py lists them), at the `crash_hit`-th passing.
        clock: whether `shift_clock` is going to be used.
        level: of its log.
    """

    def __init__(
        self,
        bootstrap: str,
        app_id: str,
        data: Path,
        *,
        partitions: int = 4,
        env: Mapping[str, str] | None = None,
        crash_at: str | None = None,
        crash_hit: int = 1,
        clock: bool = False,
        level: str = "info",
    ) -> None:
        self.app_id, self.data, self.partitions = app_id, data, partitions
        self.env = dict(env or {})
        self.crash_at, self.crash_hit = crash_at, crash_hit
        self._level = level
        self.port = free_port()
        self._bootstrap = bootstrap
        self._clock = Path(f"{data}.clock") if clock else None
        self._log, self._log_start = Path(f"{data}.log"), 0
        self._process: GuardedProcess | None = None
        self.shift_clock(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The URL of its console."""
        return f"{'https' if 'DELAY_TLS_CERT' in self.env else 'http'}://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The log since the last start."""
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "it has not started yet"
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.exit_code() is None

    @property
    def failed(self) -> bool:
        """Whether it has ended by itself, as a supervisor would see."""
        return self._process is not None and self._process.exit_code() not in (None, 0)

    def start(self) -> Self:
        """Start it; does not wait."""
        assert not self.alive, "it runs already"
        if self._process is not None:
            self._leave()  # it has ended by itself
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("DELAY_", "HOOK_"))}
        environment |= {
            "KAFKA_BOOTSTRAP_SERVERS": self._bootstrap,
            "DELAY_APP_ID": self.app_id,
            "DELAY_PARTITIONS": str(self.partitions),
            "DELAY_REPLICATION_FACTOR": "1",
            "DELAY_DESTINATIONS": "*",
            "DELAY_GUARANTEE": GUARANTEE,
            "PORT": str(self.port),
            "DATADIR": str(self.data),
            "PYTHONPATH": str(ROOT),
            # aiohttp loads the machine's certificates when it is imported, which is a tenth of the CPU of a start.
            "SSL_CERT_FILE": os.devnull,
            **self.env,
        }
        script = ["-m", "faust"]
        if self.crash_at or self._clock or any(name.startswith("HOOK_") for name in self.env):
            script = [str(Path(__file__).with_name("hooked.py"))]
            environment |= {"HOOK_CRASH_AT": self.crash_at or "", "HOOK_CRASH_HIT": str(self.crash_hit)}
            environment |= {"HOOK_CLOCK": str(self._clock or "")}
        # Its guard passes this process's environment on.
        command = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        command += [sys.executable, *script, "-A", "app", "worker", "-l", self._level]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = GuardedProcess(command, log, None)
        return self

    def ready(self) -> tuple[bool, str]:
        """Whether the worker serves, and its answer to `/health/ready`."""
        try:
            with urllib.request.urlopen(f"{self.url}/health/ready", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
                return True, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return False, error.read().decode()
        except OSError as error:
            return False, str(error)

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric, 0 if the worker does not report it."""
        shown = ",".join(f'{label}="{value}"' for label, value in labels.items())
        wanted = f"{name}{{{shown}}}" if shown else name
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == wanted)

    def wait_ready(self, timeout: float = LIMIT_S) -> float:
        """Wait until it serves, and return the seconds that took."""

        def is_ready() -> bool:
            assert self.alive, f"the worker has ended:\n{self.log[-3000:]}"
            return self.ready()[0]

        return eventually(is_ready, timeout, "the worker's readiness")

    def wait_dead(self, timeout: float = LIMIT_S) -> int:
        """Wait until it has ended by itself; return its exit code, 128 + n after signal n."""
        process = self._process
        assert process is not None, "it has not started yet"
        try:
            eventually(lambda: process.exit_code() is not None, timeout, "the worker's end")
        except AssertionError as error:
            error.add_note(self.log[-3000:])
            raise
        return self._leave()

    def wait_crashed(self, timeout: float = LIMIT_S) -> None:
        """Wait until it has killed itself at its point."""
        code = self.wait_dead(timeout)
        assert code == _KILLED, f"the worker ended with {code} instead of at {self.crash_at}:\n{self.log[-3000:]}"

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs, and return when it is gone."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        if self._process is not None:
            self.wait_dead()

    def terminate(self) -> None:
        """Ask it to stop with SIGTERM; does not wait."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self, timeout: float = LIMIT_S) -> float:
        """Stop it with SIGTERM, and return the seconds that took."""
        began = time.monotonic()
        self.terminate()
        self.wait_dead(timeout)
        return time.monotonic() - began

    def _leave(self) -> int:
        process = self._process
        assert process is not None, "it has not started yet"
        process.stop()
        code = process.exit_code()
        assert code is not None, "its guard has gone without it"
        self._process = None
        return code

    def wipe(self, *, member: bool = False) -> None:
        """Lose its disk; the member id stays, unless `member` is to be lost too."""
        assert not self.alive, "it runs"
        for path in self.data.iterdir():
            if path.name != _MEMBER or member:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def tables(self) -> list[Path]:
        """Return the directories of its databases."""
        return sorted(self.data.rglob("delays-*.db"))

    @property
    def assigned(self) -> list[int]:
        """The partitions of its last assignment, by its log."""
        *_, said = ["[]", *re.findall(r"assigned partitions (\[.*\])", self.log)]
        found: list[int] = json.loads(said)
        return found

    def shift_clock(self, milliseconds: int) -> None:
        """Put its clock off by `milliseconds` from now on; needs `clock=True`."""
        if self._clock is None:
            assert not milliseconds, "make the worker with clock=True"
            return
        self._clock.parent.mkdir(parents=True, exist_ok=True)
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(struct.pack("q", milliseconds))
