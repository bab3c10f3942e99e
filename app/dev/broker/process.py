"""A process that cannot outlive this one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

STOP_GRACE_S = 10.0  # enough for a KRaft broker to hand over and close its logs

_GUARD = Path(__file__).with_name("guard.py")


class GuardedProcess:
    """A command that a guard ends when this process is gone.

    Args:
        command: an argument list.
        log: the file of its output. It is inherited, so a lock on this open file is held while the command runs.
        remove: a directory to remove if this process dies or calls `abandon`.
    """

    def __init__(self, command: list[str], log: BinaryIO, remove: Path | None) -> None:
        order = {"command": command, "grace_s": STOP_GRACE_S, "remove": str(remove) if remove else None}
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the owner, who then stops this process
        )
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The process id of the command; waits until it runs.

        Raises:
            ProcessLookupError: it could not be run.
        """
        if self._pid is None:
            line = self._guard.stdout.readline() if self._guard.stdout else b""
            if not line:
                raise ProcessLookupError("The process ended before its command ran.")
            self._pid = int(line)
        return self._pid

    def exit_code(self) -> int | None:
        """Return the exit code, 128 + n after signal n; None while it runs."""
        return self._guard.poll()

    def stop(self) -> None:
        """End it gracefully, or by force after STOP_GRACE_S; return when it is gone."""
        self._leave(b"stop")

    def abandon(self) -> None:
        """End it and remove its directory, as when this process dies; return when that is done."""
        self._leave(b"")

    def _leave(self, word: bytes) -> None:
        # This writes, closes both pipes and reaps; a guard that has exited already is no error.
        self._guard.communicate(word, timeout=STOP_GRACE_S + 30)
