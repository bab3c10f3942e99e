"""Run `faust -A app repartition …` so that it kills itself: `python tests/harness/hooked_repartition.py --to 6`.

HOOK_CRASH_AT and HOOK_CRASH_HIT name a point at whose n-th passing the process kills itself with SIGKILL: `seal` (a
partition's changelog is about to be left), `sealed`, `batch` (of the new changelog, about to be sent), `note` (how far
it is, about to be written), `noted`, `check`, `grow`, `pass-on`, `report`, `done`.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

# Run by its path, so that Python puts this directory first; the packages are found from the root.
sys.path[0] = str(Path(__file__).parents[2])

from faust.cli.faust import cli  # noqa: E402 - found after the line above

from app.ops.repartition import copying, run, switching  # noqa: E402 - the same
from app.ops.repartition.ground import Ground, Side  # noqa: E402 - the same
from app.ops.repartition.topics import ClusterTopics  # noqa: E402 - the same

Method = Callable[..., Awaitable[Any]]

#: The function at each point: its owner, its name, and whether the point is before or after it.
POINTS: dict[str, tuple[Any, str, bool]] = {
    "seal": (Side, "_mark", True),
    "sealed": (Side, "_mark", False),
    "batch": (copying._Writer, "_send", True),
    "note": (run.Repartition, "_note", True),
    "noted": (run.Repartition, "_note", False),
    "check": (run, "check", True),
    "grow": (ClusterTopics, "grow", True),
    "pass-on": (switching, "pass_on", True),
    "report": (switching, "_report", True),
    "done": (Ground, "wipe", True),
}


def crash_at(point: str, hit: int) -> None:
    """Make the process kill itself at the `hit`-th passing of a point."""
    owner, name, before = POINTS[point]
    genuine, left = getattr(owner, name), hit

    def pass_by() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    async def hooked(*args: Any, **kwargs: Any) -> Any:
        if before:
            pass_by()
        result = await genuine(*args, **kwargs)
        if not before:
            pass_by()
        return result

    def wiped(*args: Any) -> Any:
        pass_by()
        return genuine(*args)

    setattr(owner, name, wiped if name == "wipe" else hooked)


if __name__ == "__main__":
    if os.environ.get("HOOK_CRASH_AT"):
        crash_at(os.environ["HOOK_CRASH_AT"], int(os.environ.get("HOOK_CRASH_HIT", "1")))
    sys.argv[1:1] = ["-A", "app", "repartition"]
    cli()
