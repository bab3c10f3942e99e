"""The command that changes the number of partitions: tests run it, kill it, and check its guarantees."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.harness.worker import ROOT, Worker

KILLED = -signal.SIGKILL
_SCRIPT = Path(__file__).with_name("hooked_repartition.py")


def repartition(
    worker: Worker,
    bootstrap: str,
    *options: str,
    to: int,
    crash_at: str = "",
    hit: int = 1,
    datadir: Path | None = None,
    seconds: float = 120,
    **env: str,
) -> "subprocess.CompletedProcess[str]":
    """Run the command with a worker's settings; it kills itself at the `hit`-th passing of `crash_at`, if given."""
    process = subprocess.Popen(
        [sys.executable, str(_SCRIPT), "--to", str(to), *options],
        env=settings(worker, bootstrap, datadir, crash_at=crash_at, hit=hit) | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def settings(
    worker: Worker, bootstrap: str, datadir: Path | None = None, *, crash_at: str = "", hit: int = 1
) -> dict[str, str]:
    """Return the environment of the command for a worker's installation."""
    aside = ("DELAY_", "KAFKA_", "HOOK_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(aside)},
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "DELAY_APP_ID": worker.app_id,
        "DELAY_PARTITIONS": str(worker.partitions),
        "DELAY_REPLICATION_FACTOR": "1",
        "DELAY_DESTINATIONS": "*",
        "DATADIR": str(datadir or worker.data),
        "PYTHONPATH": str(ROOT),
        "HOOK_CRASH_AT": crash_at,
        "HOOK_CRASH_HIT": str(hit),
        **worker.env,
    }


def report(said: "subprocess.CompletedProcess[str]") -> Mapping[str, Any]:
    """Return the command's report; the command must have succeeded."""
    assert said.returncode == 0, said.stderr[-3000:] + said.stdout
    found: Mapping[str, Any] = json.loads(said.stdout)
    return found


def has_grown(worker: Worker, partitions: int) -> None:
    """Give a worker the settings of `partitions` partitions."""
    worker.partitions = partitions
    worker.env |= {"DELAY_PARTITIONS": str(partitions), "DELAY_REPARTITIONED": "on"}
