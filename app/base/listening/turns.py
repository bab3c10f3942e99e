"""Turns in which the connections of a server read large bodies, so that no number of clients holds up other work."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

#: The time between two turns. In a turn, an event loop reads at most 256 KB, which takes half a millisecond. So large
#: bodies take at most a quarter of its time, and together they arrive at up to 100 MB/s.
PAUSE_S: Final = 0.002


class Turns:
    """Runs callbacks in order, with a pause after each."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run callbacks on a `loop`."""
        self._loop = loop
        self._callbacks = deque[Callable[[], None]]()
        self._next_s = 0.0

    def add(self, callback: Callable[[], None]) -> None:
        """Run a callback after all callbacks that were added before it."""
        self._callbacks.append(callback)
        if len(self._callbacks) == 1:
            self._loop.call_at(self._next_s, self._run)

    def _run(self) -> None:
        self._next_s = self._loop.time() + PAUSE_S
        try:
            self._callbacks[0]()
        finally:
            self._callbacks.popleft()
            if self._callbacks:
                self._loop.call_at(self._next_s, self._run)
