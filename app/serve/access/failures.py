"""Slows down whoever guesses: by address, in bounded memory."""

from collections import OrderedDict
from typing import Final

from app.base.listening.network import network

#: So many failures cost nothing; each one after doubles the wait.
_FREE: Final = 5
_LONGEST_S: Final = 60.0
#: What has failed last is forgotten after this long, and so many addresses are known at most.
_KEPT_S: Final = 900.0
_MOST: Final = 10_000


class Failures:
    """Counts failures to sign in, and says how long an address has to wait.

    A success changes nothing: else whoever has one password could go on to guess another.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._known: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, address: str | None, now_s: float) -> float:
        """Return for how long an address is not listened to."""
        count, last_s = self._known.get(network(address), (0, now_s))
        if count < _FREE or now_s - last_s > _KEPT_S:
            return 0.0
        return max(0.0, last_s + min(_LONGEST_S, float(1 << min(count - _FREE, 6))) - now_s)

    def failed(self, address: str | None, now_s: float) -> None:
        """Count a failure."""
        key = network(address)
        count, last_s = self._known.pop(key, (0, now_s))
        self._known[key] = (1 if now_s - last_s > _KEPT_S else count + 1, now_s)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
