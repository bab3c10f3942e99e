"""Ends a process that has stopped fetching or firing, or whose supervisor is gone.

A stuck consumer looks healthy from outside; a worker without its supervisor would never be restarted or stopped.
"""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Final

from app.base.errors import PunctualError
from app.base.process.fatal import end_process

log = logging.getLogger(__name__)

_LOOK_S = 1.0
_STUCK_S = 30.0


class ProcessStuck(PunctualError):
    """A loop that should run several times a second has not run for half a minute."""


class Watchdog:
    """Watches when loops last ran, by the event loop's clock; a thread watches the event loop itself."""

    def __init__(self, beats: dict[str, Callable[[], float]]) -> None:
        """Watch the loops in `beats`: each function returns when its loop last ran, 0 if it has not begun."""
        self._beats = beats
        self._seen = time.monotonic()
        self._over = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        threading.Thread(target=self._watch_loop, name="watchdog", daemon=True).start()
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._seen = time.monotonic()
                for name, beat in self._beats.items():
                    at = beat()
                    if at and loop.time() - at > _STUCK_S:
                        end_process(
                            ProcessStuck(f"{name} has not moved for {loop.time() - at:.0f} s; the process exits")
                        )
                await asyncio.sleep(_LOOK_S)
        finally:
            self._over.set()

    def _watch_loop(self) -> None:
        while not self._over.wait(_LOOK_S):
            if time.monotonic() - self._seen > _STUCK_S:
                end_process(ProcessStuck(f"the event loop has been stuck for {_STUCK_S:.0f} s; the process exits"))


#: The environment variable with the descriptor of a pipe. The pipe closes when the supervisor ends.
PARENT_FD: Final = "PUNCTUAL_PARENT_FD"
_GRACE_S: Final = 60.0


def watch_parent(env: MutableMapping[str, str] = os.environ) -> None:
    """End this process as SIGTERM does when its supervisor is gone, even after kill -9.

    After a minute it ends in any case; the next owner of its partitions repeats unfinished work.
    """
    named = env.pop(PARENT_FD, "")
    if named:
        threading.Thread(target=_wait, args=(int(named),), name="parent", daemon=True).start()


def _wait(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keywords
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_GRACE_S)
    os._exit(1)
