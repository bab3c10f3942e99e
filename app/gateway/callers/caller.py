"""Who has sent a request, and what that lets it do."""

import fnmatch
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.base.http.allow_list import allow_list


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may use the gateway: a name, the namespace of its ids, and patterns of its destinations.

    Without a namespace every id is named in full. What the settings forbid stays forbidden. `rate` requests a second
    may come, `burst` at once, 0 for any number; messages have up to `max_message_bytes`, 0 for what Kafka takes.
    """

    name: str = ""
    namespace: str = ""
    destinations: tuple[str, ...] = ("*",)
    rate: float = 0.0
    burst: int = 0
    max_message_bytes: int = 0

    def may_deliver_to(self, to: str) -> bool:
        """Return whether a topic or an URL is among the destinations; `*` has all topics, and URLs of https."""
        if "://" not in to:
            return any(fnmatch.fnmatchcase(to, pattern) for pattern in self.destinations)
        try:
            allow_list(tuple(one for one in self.destinations if one == "*" or "://" in one)).allowed(to)
        except ValueError:
            return False
        return True


#: Where nobody has to show a token, everyone is this one.
ANYONE: Final = Caller()
CALLER: Final = web.RequestKey("caller", Caller)


def caller_of(request: web.Request) -> Caller:
    """Return who has sent a request, as the gate has found it."""
    caller: Caller = request.get(CALLER, ANYONE)
    return caller
