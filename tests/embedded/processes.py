"""Watching processes come and go."""

import os
import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until the condition holds; fail if it does not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether no process has this id, dead ones that wait to be reaped included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
