"""Roles, and whoever asks for something."""

from typing import Final, Literal

import msgspec
from aiohttp import web

Role = Literal["viewer", "operator", "admin"]
#: Each may do what those before it may.
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")


class Asker(msgspec.Struct, frozen=True):
    """Who asks, in which role; `session` is the id of what the browser was given, if that says so.

    With `masked` they see no keys, values and values of headers.
    """

    name: str
    role: Role
    session: str = ""
    masked: bool = False


#: Whoever asks where nobody has to sign in.
ANYBODY: Final = Asker("anonymous", "admin")
#: Where a request has it: no header can be mistaken for it.
ASKER: Final = web.RequestKey("asker", Asker)


def enough(role: Role, need: Role) -> bool:
    """Whether a role may do what needs another."""
    return ROLES.index(role) >= ROLES.index(need)


def masks(payloads: str, role: Role) -> bool:
    """Whether payloads are masked for a role, by what DELAY_WEB_PAYLOADS says."""
    return payloads == "masked" or (payloads == "masked-for-viewers" and role == ROLES[0])


def put(request: web.Request, asker: Asker) -> None:
    """Write into a request who asks; acts and pages read it there."""
    request[ASKER] = asker
