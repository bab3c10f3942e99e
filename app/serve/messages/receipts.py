"""The time at which a request first arrived, and IDs for messages without one."""

import logging
import random
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from aiohttp import web

from app.base.clock import Clock
from punctual.contract.home import key_partition

log = logging.getLogger(__name__)

_RANDOM, _RANDOM_BITS = 10**18, 59
_STEP = 10**9
#: A clock that is set back by more than this is not just being synchronised.
_SET_BACK_MS = 1_000


class Origin(NamedTuple):
    """The origin of a request's messages, which makes them the same when the request is repeated.

    `moment_ms` is the time of the first receipt (epoch ms). `id` returns the ID of a message without one, from its
    number in the request and its key, whose partition is the ID's home.
    """

    moment_ms: int
    id: Callable[[int, bytes | None], str]


class Receipts:
    """Times that never go back, and IDs that sort by time; in one gateway."""

    def __init__(self, requests: str, partitions: int) -> None:
        """Make IDs for the requests topic of an installation with `partitions` partitions."""
        self._requests, self._partitions = requests, partitions
        self._moment_ms = self._number = 0
        #: Whether the clock was set back, and this has been logged.
        self._behind = False
        # IDs need not be hard to guess, and system randomness would cost as much as the rest of an ID.
        self._chance = random.Random(secrets.randbits(256)).getrandbits  # noqa: S311 - the same

    def moment_ms(self) -> int:
        """Return the time (epoch ms) for `delay-asked-at`, never before an earlier result, or commands would be stale.

        After a restart it can go back if the machine's clock did. Until a clock that was set back has caught up, delays
        count from the last result: messages are late rather than early.
        """
        now_ms = Clock.wall_ms()
        if now_ms > self._moment_ms:
            self._moment_ms, self._behind = now_ms, False
        elif self._moment_ms - now_ms > _SET_BACK_MS and not self._behind:
            self._behind = True
            log.warning(
                "the clock was set back by %.1f s. Until it catches up, delays count from the previous time, so "
                "messages are due later by this difference. Check NTP on this machine. A restart uses the clock as "
                "it is.",
                (self._moment_ms - now_ms) / 1_000,
            )
        return self._moment_ms

    def id(self, key: bytes | None) -> str:
        """Return a new ID whose home is the partition of `key`, or any partition for None.

        So messages with one key keep their order: IDs determine the partition, and order is kept within a partition.
        The ID has the form of automatic IDs, which contain their home (records.md#commands); its number is the time and
        59 random bits, far larger than any offset. IDs of one gateway sort by time, as text too.
        """
        chance = self._chance(_RANDOM_BITS)
        number = self.moment_ms() * _RANDOM + chance
        if number <= self._number:
            number = self._number + 1 + chance % _STEP
        self._number = number
        home = number % self._partitions if key is None else key_partition(key, self._partitions)
        return f"{self._requests}-{home}-{number}"

    def origin(self) -> Origin:
        """Return the origin of a request that cannot be recognised again: the current time, and new IDs."""
        return Origin(self.moment_ms(), lambda _, key: self.id(key))


#: The key of a request's origin, if the request can be recognised again.
ORIGIN: Final[web.RequestKey[Origin]] = web.RequestKey("origin", Origin)
