"""Roles, and whoever asks for something."""

from collections.abc import Callable, Collection
from typing import Final, Literal

import msgspec
from aiohttp import web

from app.base.listening.limits import network
from app.base.places import WHO
from app.serve.web.origin import client_address

Role = Literal["viewer", "operator", "admin"]
#: Each may do what those before it may.
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")


class Grant(msgspec.Struct, frozen=True):
    """A role, and the namespaces in which alone somebody has it; None stands for the whole installation."""

    role: Role
    namespaces: tuple[str, ...] | None = None


class Asker(msgspec.Struct, frozen=True):
    """Who asks, in which role; `session` is the id of what the browser was given, if that says so.

    With `namespaces` they see and act on what is in these alone. With `masked` they see no keys, values and values of
    headers. `until_s` is when what they have shown expires (seconds of Unix time), if that is known.
    """

    name: str
    role: Role
    session: str = ""
    namespaces: tuple[str, ...] | None = None
    masked: bool = False
    until_s: int | None = None

    @property
    def bound(self) -> bool:
        """Whether they are bound to namespaces, and so nothing of the whole installation is theirs."""
        return self.namespaces is not None


#: Whoever asks where nobody has to sign in.
ANYBODY: Final = Asker("anonymous", "admin")
#: Where a request has it: no header can be mistaken for it.
ASKER: Final = web.RequestKey("asker", Asker)
#: And what says whether they may still what they might when they asked: an answer may take longer than that.
HOLDS: Final[web.RequestKey[Callable[[], bool]]] = web.RequestKey("holds")


def enough(role: Role, need: Role) -> bool:
    """Whether a role may do what needs another."""
    return ROLES.index(role) >= ROLES.index(need)


def namespaces_of(text: str, separator: str, there: Collection[str]) -> tuple[str, ...]:
    """Return the namespaces that somebody is bound to, of those that there are. Raises ValueError with a sentence."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(separator)))
    for name in names:
        if name not in there:
            known = f"DELAY_NAMESPACES has {', '.join(sorted(there))}" if there else "DELAY_NAMESPACES has none"
            raise ValueError(f"there is no namespace {name[:64]!r}; {known}")
    return names


def masks(payloads: str, role: Role) -> bool:
    """Whether payloads are masked for a role, by what DELAY_WEB_PAYLOADS says."""
    return payloads == "masked" or (payloads == "masked-for-viewers" and role == ROLES[0])


def put(request: web.Request, asker: Asker) -> None:
    """Write into a request who asks; actions and pages read it there."""
    request[ASKER] = asker
    WHO.set(network(client_address(request)) if asker.name == ANYBODY.name else asker.name)
