"""The machine of a run: the facts that readers need to judge its figures, without its owner."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.dev.broker.jars import kafka_version

_ROOT = Path(__file__).parents[1]
_BUSY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The circumstances of a run."""

    date: str
    cores: int
    system: str
    python: str
    kafka: str
    commit: str
    load_before: float
    """The load average of the last minute, before the run."""

    @property
    def busy(self) -> bool:
        """Whether something else was running: then the figures are not to be compared."""
        return self.load_before > _BUSY * self.cores


def look() -> Machine:
    """Look at this machine now."""
    external = bool(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"))
    return Machine(
        date=datetime.now(UTC).date().isoformat(),
        cores=len(os.sched_getaffinity(0)),
        system=f"{platform.system()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        kafka="of KAFKA_BOOTSTRAP_SERVERS" if external else kafka_version(),
        commit=_commit(),
        load_before=round(os.getloadavg()[0], 2),
    )


def _commit() -> str:
    """Name the commit, with a plus if the tree differs from it; empty outside of git."""
    git = shutil.which("git")
    if git is None:
        return ""
    head = [git, "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD"]
    changes = [git, "-C", str(_ROOT), "status", "--porcelain", "--untracked-files=no"]
    try:
        name, dirty = (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - fixed
            for command in (head, changes)
        )
    except subprocess.CalledProcessError:
        return ""
    return name + ("+" if dirty else "")
