"""Roles, permissions, and the caller of a request: a person or a program."""

import fnmatch
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Collection
from typing import Final, Literal, Self

import msgspec
from aiohttp import web

from app.base.http.allow_list import allow_list
from app.base.listening.limits import network
from app.base.places import WHO
from app.serve.web.guard import client_address
from punctual.contract.destination import shown
from punctual.contract.namespaces import Namespaces
from punctual.contract.request import Reason, Refusal

Role = Literal["viewer", "operator", "admin"]
#: In ascending order: each role includes the permissions of those before.
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a role.

    `namespaces` are those to which it is limited, None stands for the whole installation. `destinations` are patterns
    of topics and URLs, None stands for all that the settings allow. `rate` limits requests per second, `burst` requests
    at once, `max_message_bytes` a message; 0 is no limit.
    """

    namespaces: tuple[str, ...] | None = None
    destinations: tuple[str, ...] | None = None
    rate: float = 0.0
    burst: int = 0
    max_message_bytes: int = 0


class Grant(Limits, frozen=True):
    """A role with its limits."""

    role: Role


class Caller(Limits, frozen=True):
    """The caller of a request, with the permissions of a Grant.

    `session` is the ID in the session cookie, if the caller signed in with one. With `masked` the caller sees no keys,
    values and header values. `until_s` is when the credentials expire (seconds of Unix time), if known.
    """

    name: str
    role: Role
    session: str = ""
    masked: bool = False
    until_s: int | None = None

    @classmethod
    def of(cls, name: str, grant: Grant, session: str = "", until_s: int | None = None) -> Self:
        """Return a caller with the permissions of a grant."""
        return cls(name, session=session, until_s=until_s, **msgspec.structs.asdict(grant))

    @property
    def bound(self) -> bool:
        """Whether the caller is bound to namespaces, and may not see the whole installation."""
        return self.namespaces is not None

    @property
    def namespace(self) -> str:
        """The namespace of IDs that name none of the caller's namespaces; "" if the caller is not bound."""
        return self.namespaces[0] if self.namespaces else ""

    def full_id(self, id_: str, namespaces: Namespaces) -> str:
        """Return the full name of the ID that the caller means, which is always within the caller's namespaces.

        An ID outside of them gets the prefix of the first one, where it cannot belong to another caller. Raises Refusal
        if it is then too long.
        """
        if self.namespaces is None or namespaces.of_id(id_) in self.namespaces:
            return id_
        return namespaces.full(self.namespaces[0], id_)

    @property
    def login(self) -> str:
        """The name; "" if signing in is not required."""
        return "" if self.name == ANYBODY.name else self.name

    def may_deliver_to(self, to: str) -> bool:
        """Return whether a topic or URL matches the destinations; `*` matches all topics, and public https URLs."""
        if self.destinations is None:
            return True
        if "://" not in to:
            return any(fnmatch.fnmatchcase(to, pattern) for pattern in self.destinations)
        urls = tuple(pattern for pattern in self.destinations if pattern == "*" or "://" in pattern)
        try:
            allow_list(urls).allowed(to)
        except ValueError:
            return False
        return True

    def check_destinations(self, to: str, on_failure: str | None) -> None:
        """Raise Refusal if the caller may not deliver to a destination, or to that of a failure callback."""
        destinations = [to] if on_failure is None or "*" in (self.destinations or "*") else [to, on_failure]
        for destination in destinations:
            if not self.may_deliver_to(destination):
                sentence = f"{self.name} has no permission to deliver to {shown(destination)!r}."
                raise Refusal(Reason.NOT_ALLOWED, f"{sentence} The destinations of callers are in the access file.")

    def check_size(self, size: int) -> None:
        """Raise Refusal if a message of `size` bytes is larger than the caller's maximum."""
        if self.max_message_bytes and size > self.max_message_bytes:
            sentence = f"the message has {size} bytes. The maximum for {self.name} is {self.max_message_bytes}."
            raise Refusal(Reason.TOO_LARGE, sentence)


#: The caller if signing in is not required.
ANYBODY: Final = Caller("anonymous", "admin")
#: The key of the caller in a request, which no header can set.
CALLER: Final = web.RequestKey("caller", Caller)
#: The key of a check whether the caller still has the permissions, because a response may last longer than a session.
HOLDS: Final[web.RequestKey[Callable[[], bool]]] = web.RequestKey("holds")


def caller_of(request: web.Request) -> Caller:
    """Return the caller of a request, whom the gate has identified."""
    return request.get(CALLER) or ANYBODY


def enough(role: Role, need: Role) -> bool:
    """Return whether a role includes the permissions of the role `need`."""
    return ROLES.index(role) >= ROLES.index(need)


def combined(grants: Collection[Grant]) -> Grant:
    """Return the highest role of some grants, with the limits of all grants that give it."""
    role = max((grant.role for grant in grants), key=ROLES.index)
    highest = [grant for grant in grants if grant.role == role]
    return Grant(
        role,
        namespaces=_union([grant.namespaces for grant in highest]),
        destinations=_union([grant.destinations for grant in highest]),
        rate=_widest([grant.rate for grant in highest]),
        burst=int(_widest([grant.burst for grant in highest])),
        max_message_bytes=int(_widest([grant.max_message_bytes for grant in highest])),
    )


def _union(limits: Collection[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    return None if None in limits else tuple(sorted({name for names in limits for name in names or ()}))


def _widest(limits: Collection[float]) -> float:
    return 0 if 0 in limits else max(limits)


def masks(payloads: str, role: Role) -> bool:
    """Return whether payloads are masked for a role; `payloads` is the value of DELAY_WEB_PAYLOADS."""
    return payloads == "masked" or (payloads == "masked-for-viewers" and role == ROLES[0])


#: The header of a gateway's request to a worker with the gateway's caller; it counts with the workers' secret alone.
FORWARDED: Final = "Punctual-Caller"
_decode: Final = msgspec.json.Decoder(Caller).decode


def forwarded(caller: Caller) -> str:
    """Return the value of the header FORWARDED for a caller who reads."""
    reader = Caller(caller.name, caller.role, namespaces=caller.namespaces, masked=caller.masked)
    return urlsafe_b64encode(msgspec.json.encode(reader)).decode()


def forwarded_in(request: web.Request) -> Caller | None:
    """Return the caller whom another server of the installation has identified; None without a valid header."""
    try:
        return _decode(urlsafe_b64decode(request.headers.get(FORWARDED, "")))
    except (Base64Error, ValueError, msgspec.MsgspecError):
        return None


def put(request: web.Request, caller: Caller) -> None:
    """Store the caller in a request, where actions and pages read it."""
    request[CALLER] = caller
    WHO.set(caller.login or network(client_address(request)))
