"""When a request came first, and ids for messages that have none."""

import logging
import random
import secrets
from typing import Final, Protocol

from aiohttp import web

from app.base.clock import Clock
from punctual.contract.home import key_partition

log = logging.getLogger(__name__)

_RANDOM, _RANDOM_BITS = 10**18, 59
_STEP = 10**9
#: A clock that is set back by so much is not just kept right.
_SET_BACK_MS = 1_000


class Receipts:
    """Moments that never go back, and ids that sort by them; of one gateway."""

    def __init__(self, requests: str, partitions: int) -> None:
        """Make ids for the requests topic of an installation with so many partitions."""
        self._requests, self._partitions = requests, partitions
        self._moment_ms = self._number = 0
        #: Whether the clock was set back, and that has been told.
        self._behind = False
        # Nobody need fail to guess an id, and asking the system for each costs as much as all the rest of it.
        self._chance = random.Random(secrets.randbits(256)).getrandbits  # noqa: S311 - the same

    def moment_ms(self) -> int:
        """Return the time (epoch ms), for `delay-asked-at`: never before an earlier answer, or commands would be stale.

        Across a restart it can go back, if the machine's clock did. Until a clock that was set back has caught up,
        spans of time count from the last answer: too late rather than too early.
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
        """Return an id that nobody has had, and that lives in the partition of `key`, or in any if there is none.

        Messages of one key so keep their order although each has another id: ids decide over partitions, and order is
        kept within one. It has the shape of automatic ids, which say where they live (records.md#commands); its number
        is the time and 59 random bits, far larger than any offset. Ids of one gateway sort by time, as text too.
        """
        chance = self._chance(_RANDOM_BITS)
        number = self.moment_ms() * _RANDOM + chance
        if number <= self._number:
            number = self._number + 1 + chance % _STEP
        self._number = number
        home = number % self._partitions if key is None else key_partition(key, self._partitions)
        return f"{self._requests}-{home}-{number}"


class Origin(Protocol):
    """What makes messages of a request that comes again the same as before."""

    @property
    def moment_ms(self) -> int:
        """When it came first, in epoch milliseconds."""
        ...

    def id(self, number: int, key: bytes | None) -> str:
        """Return the id of a message that has none: another one for each number, living where its key does."""
        ...


class Now:
    """That of a request which nobody would know again: now, and ids that nobody has had."""

    def __init__(self, receipts: Receipts) -> None:
        """Take the moment."""
        self._receipts, self.moment_ms = receipts, receipts.moment_ms()

    def id(self, _number: int, key: bytes | None) -> str:
        """Return a new id."""
        return self._receipts.id(key)


#: Where a request has it, if it can be known again.
ORIGIN: Final[web.RequestKey[Origin]] = web.RequestKey("origin", Origin)
