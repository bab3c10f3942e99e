"""When a request came first, and the ids that follow from that."""

from typing import Final, Protocol

from aiohttp import web

from app.gateway.desk.receipts import Receipts


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
