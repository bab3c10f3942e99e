"""What is to be looked at every now and then, with a timer for all of the time in between."""

import asyncio
import math
from collections.abc import Awaitable, Callable


class Reminder:
    """Calls somebody when it is time to look."""

    def __init__(self, every_s: float, call: Callable[[], object]) -> None:
        """Have `call` called after `every_s`; infinity is never."""
        self._every_s, self._call = every_s, call
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._again()

    async def look(self, looking: Awaitable[object]) -> None:
        """Look, and begin anew; who asks meanwhile waits for the next look."""
        waiting, self._waiting = self._waiting, []
        self._again()
        await looking
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def looked(self) -> None:
        """Have somebody look at once, and wait until they have."""
        looked = self._loop.create_future()
        self._waiting.append(looked)
        self._remind()
        await looked

    def _again(self) -> None:
        self.cancel()
        self.due = False
        if math.isfinite(self._every_s):
            self._timer = self._loop.call_later(self._every_s, self._remind)

    def _remind(self) -> None:
        self.due = True
        self._call()

    def cancel(self) -> None:
        """Call nobody any more, unless it is asked for."""
        if self._timer is not None:
            self._timer.cancel()
