"""Roles, and the caller of a request."""

from collections.abc import Callable, Collection
from typing import Final, Literal

import msgspec
from aiohttp import web

from app.base.listening.limits import network
from app.base.places import WHO
from app.serve.web.origin import client_address

Role = Literal["viewer", "operator", "admin"]
#: In ascending order: each role includes the permissions of those before.
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")


class Grant(msgspec.Struct, frozen=True):
    """A role, and the namespaces to which it is limited; None stands for the whole installation."""

    role: Role
    namespaces: tuple[str, ...] | None = None


class Caller(msgspec.Struct, frozen=True):
    """The user of a request and the role; `session` is the ID in the session cookie, if the user signed in with one.

    With `namespaces` the user sees and changes only these. With `masked` the user sees no keys, values and header
    values. `until_s` is when the credentials expire (seconds of Unix time), if known.
    """

    name: str
    role: Role
    session: str = ""
    namespaces: tuple[str, ...] | None = None
    masked: bool = False
    until_s: int | None = None

    @property
    def bound(self) -> bool:
        """Whether the user is bound to namespaces, and may not see the whole installation."""
        return self.namespaces is not None


#: The user if signing in is not required.
ANYBODY: Final = Caller("anonymous", "admin")
#: The key of the user in a request, which no header can set.
CALLER: Final = web.RequestKey("caller", Caller)
#: The key of a check whether the user still has the permissions, because a response may last longer than a session.
HOLDS: Final[web.RequestKey[Callable[[], bool]]] = web.RequestKey("holds")


def enough(role: Role, need: Role) -> bool:
    """Return whether a role includes the permissions of the role `need`."""
    return ROLES.index(role) >= ROLES.index(need)


def namespaces_of(text: str, separator: str, there: Collection[str]) -> tuple[str, ...]:
    """Return the namespaces in `text`, which must be among those in `there`. Raises ValueError with a sentence."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(separator)))
    for name in names:
        if name not in there:
            known = f"DELAY_NAMESPACES has {', '.join(sorted(there))}" if there else "DELAY_NAMESPACES has none"
            raise ValueError(f"there is no namespace {name[:64]!r}; {known}")
    return names


def masks(payloads: str, role: Role) -> bool:
    """Return whether payloads are masked for a role; `payloads` is the value of DELAY_WEB_PAYLOADS."""
    return payloads == "masked" or (payloads == "masked-for-viewers" and role == ROLES[0])


def put(request: web.Request, caller: Caller) -> None:
    """Store the user in a request, where actions and pages read it."""
    request[CALLER] = caller
    WHO.set(network(client_address(request)) if caller.name == ANYBODY.name else caller.name)
