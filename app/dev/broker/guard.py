"""Run a command, and end it when the process that started this guard is gone, even by kill -9.

It is run by its path with `python -I -S`, so that it imports no other module of Punctual and starts within
milliseconds. Standard input is a pipe whose other end the owner holds. A byte on it requests a graceful end. The
pipe ends when the owner closes it or dies: then a directory that only the owner needs is removed too.
(PR_SET_PDEATHSIG would do without this process, but only on Linux, and it fires when the *thread* that started the
child ends.) The command's process id is one line on standard output; the command's own output goes to standard error.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading


class Guard:
    """Runs a command until it exits, or its owner dies or stops it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, command: list[str]) -> int:
        """Run the command, unless `end` was called before; return its exit code, 128 + n for signal n."""
        with self._lock:
            if self._ended:
                return 0
            self._child = child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
        code = child.wait()
        return code if code >= 0 else 128 - code

    def end(self, grace_s: float) -> None:
        """End the command: SIGTERM, then SIGKILL `grace_s` seconds later."""
        with self._lock:
            self._ended = True
            child = self._child
        if child is None:
            return
        if grace_s:
            child.terminate()
            try:
                child.wait(grace_s)
            except subprocess.TimeoutExpired:
                child.kill()
        else:
            child.kill()


def main(command: list[str], grace_s: float, remove: str | None) -> int:
    """Run the command guarded; return the exit code.

    Args:
        command: an argument list.
        grace_s: seconds between SIGTERM and SIGKILL.
        remove: a directory that is removed when the owner dies. The command then gets no grace.
    """
    guard = Guard()
    orphaned = threading.Event()

    def watch() -> None:
        # Not sys.stdin: its lock, held by a daemon thread, would abort Python's exit.
        if os.read(0, 1):
            guard.end(grace_s)
        else:
            orphaned.set()
            guard.end(0 if remove else grace_s)

    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=guard.end, args=(grace_s,)).start())
    threading.Thread(target=watch, daemon=True).start()
    code = guard.run(command)
    if remove and orphaned.is_set():
        shutil.rmtree(remove, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(**json.loads(sys.argv[1])))
