"""The caller of a request, and the caller's permissions."""

import fnmatch
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.base.http.allow_list import allow_list


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller of the gateway: a name, the namespace of its IDs, and patterns of its destinations.

    Without a namespace the caller's IDs are full IDs. The settings' own rules still apply. `rate` limits requests per
    second, `burst` requests at once, 0 for no limit; `max_message_bytes` limits messages, 0 for Kafka's limit only.
    """

    name: str = ""
    namespace: str = ""
    destinations: tuple[str, ...] = ("*",)
    rate: float = 0.0
    burst: int = 0
    max_message_bytes: int = 0

    def may_deliver_to(self, to: str) -> bool:
        """Return whether a topic or URL matches the destinations; `*` matches all topics, and https URLs."""
        if "://" not in to:
            return any(fnmatch.fnmatchcase(to, pattern) for pattern in self.destinations)
        try:
            allow_list(tuple(one for one in self.destinations if one == "*" or "://" in one)).allowed(to)
        except ValueError:
            return False
        return True


#: The caller if the gateway has no tokens.
ANYONE: Final = Caller()
CALLER: Final = web.RequestKey("caller", Caller)


def caller_of(request: web.Request) -> Caller:
    """Return the caller of a request, whom the gate has identified."""
    caller: Caller = request.get(CALLER, ANYONE)
    return caller
