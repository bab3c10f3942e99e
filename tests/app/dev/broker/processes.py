"""Watching processes come and go."""

import os


def gone(pid: int) -> bool:
    """Whether no process has this id, dead ones that wait to be reaped included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
