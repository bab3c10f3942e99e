"""Who has sent a request, and what that lets it do."""

import fnmatch
from dataclasses import dataclass
from typing import Final

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may use the gateway: a name, the namespace of its ids, and patterns of its destinations.

    Without a namespace every id is named in full. What the settings forbid stays forbidden.
    """

    name: str = ""
    namespace: str = ""
    destinations: tuple[str, ...] = ("*",)

    def may_deliver_to(self, to: str) -> bool:
        """Return whether a topic or an URL is among the destinations."""
        return any(fnmatch.fnmatchcase(to, pattern) for pattern in self.destinations)


#: Where nobody has to show a token, everyone is this one.
ANYONE: Final = Caller()
CALLER: Final = web.RequestKey("caller", Caller)


def caller_of(request: web.Request) -> Caller:
    """Return who has sent a request, as the gate has found it."""
    caller: Caller = request.get(CALLER, ANYONE)
    return caller
