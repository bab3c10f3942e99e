"""Messages that came a moment ago: their worker may not have read them yet, and whoever has sent them looks at once."""

import asyncio
from collections import OrderedDict
from typing import Final

#: A worker reads a record within some ms, unless it is behind.
_SETTLE_S: Final = 1.0
_MOST: Final = 10_000


class Recent:
    """Which ids have been sent lately."""

    def __init__(self) -> None:
        """Know none."""
        self._sent_s: OrderedDict[str, float] = OrderedDict()

    def sent(self, id_: str) -> None:
        """Note that Kafka has a message, just now."""
        self._sent_s[id_] = asyncio.get_running_loop().time()
        self._sent_s.move_to_end(id_)
        if len(self._sent_s) > _MOST:
            self._sent_s.popitem(last=False)

    def may_come(self, id_: str) -> bool:
        """Return whether a message that is not there may be there in a moment."""
        sent_s = self._sent_s.get(id_)
        return sent_s is not None and asyncio.get_running_loop().time() - sent_s < _SETTLE_S
