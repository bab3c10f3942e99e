"""What is to be looked at every now and then, with a timer for all of the time in between."""

import asyncio
import math
from collections.abc import Callable


class Reminder:
    """Calls somebody when it is time to look."""

    def __init__(self, every_s: float, call: Callable[[], object]) -> None:
        """Have `call` called after `every_s`; infinity is never."""
        self._every_s, self._call = every_s, call
        self._loop = asyncio.get_running_loop()
        self.again()

    def again(self) -> None:
        """Begin anew: somebody has looked."""
        self.due = False
        self._timer = self._loop.call_later(self._every_s, self._remind) if math.isfinite(self._every_s) else None

    def _remind(self) -> None:
        self.due = True
        self._call()

    def cancel(self) -> None:
        """Call nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
