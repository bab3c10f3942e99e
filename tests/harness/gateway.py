"""A gateway process that a test starts, kills and starts again."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.harness.ports import free_port
from tests.harness.program import Program
from tests.harness.waiting import LIMIT_S, eventually

_START_S = 60.0


class GatewayProcess:
    """One gateway and its data directory; it ends when the `with` block does, or this process.

    Its disk takes no file of more bytes than `largest_file`, if that is given.
    """

    def __init__(
        self,
        bootstrap: str,
        app_id: str,
        data: Path,
        *,
        partitions: int = 4,
        env: Mapping[str, str] | None = None,
        largest_file: int | None = None,
    ) -> None:
        self.port, self.data = free_port(), data
        self._scheme = "https" if "DELAY_TLS_CERT" in (env or {}) else "http"
        settings = {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
            "DELAY_APP_ID": app_id,
            "DELAY_PARTITIONS": str(partitions),
            "DELAY_REPLICATION_FACTOR": "1",
            "DELAY_DESTINATIONS": "*",
            "DELAY_GATEWAY_PORT": str(self.port),
            "DATADIR": str(data),
            **(env or {}),
        }
        words = [sys.executable, "-m", "faust", "-A", "app", "gateway"]
        if largest_file is not None:
            words = ["prlimit", f"--fsize={largest_file}:unlimited", *words]
        self._program = Program(Path(f"{data}.log"), *words, env=settings, python=False)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._program.pid

    @property
    def url(self) -> str:
        """The gateway's URL."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The log."""
        return self._program.log

    def memory_bytes(self) -> tuple[int, int]:
        """Return the present and the peak memory."""
        status = Path(f"/proc/{self._program.pid}/status").read_text("utf-8")
        fields = {line.partition(":")[0]: line.split() for line in status.splitlines()}
        return int(fields["VmRSS"][1]) << 10, int(fields["VmHWM"][1]) << 10

    def start(self) -> Self:
        """Start it, and wait until it listens."""
        self._program.start()

        def listens() -> bool:
            assert self._program.alive, f"the gateway has ended:\n{self.log[-3000:]}"
            return bool(self.ready())

        eventually(listens, _START_S, "the gateway's start")
        return self

    def ready(self) -> dict[str, Any]:
        """Return the report of `/ready`, empty if the gateway does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                found = json.load(error)
        except OSError:
            return {}
        return dict(found)

    def wait_state(self, state: str, seconds: float = 30.0) -> float:
        """Wait until records go where `state` says."""
        return eventually(lambda: self.ready().get("state") == state, seconds, f"state {state}: {self.ready()}")

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs."""
        self._program.kill()

    def stop(self) -> int | None:
        """Stop it with SIGTERM; return its exit code."""
        return self._program.stop()
