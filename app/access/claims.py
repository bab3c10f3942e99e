"""What a provider says of somebody: their name, and the role that follows from their groups."""

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from app.access.roles import ROLES, Role

_EVERYBODY: Final = "*"
_LONGEST: Final = 100


class RoleRules(msgspec.Struct, frozen=True):
    """Which role follows from a claim's values: `groups:sre=admin,support=operator,*=viewer`."""

    claim: str
    roles: Mapping[str, Role]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read rules. Raises ValueError with what is needed instead."""
        claim, colon, pairs = text.rpartition(":") if ":" in text.partition("=")[0] else ("", "", text)
        if colon:
            claim, _, pairs = text.partition(":")
        roles: dict[str, Role] = {}
        for pair in filter(None, (part.strip() for part in pairs.split(","))):
            value, equals, role = pair.rpartition("=")
            if not equals or role.strip() not in ROLES:
                raise ValueError(f"{pair!r} is not of the form value=role, the role one of {', '.join(ROLES)}")
            roles[value.strip()] = role.strip()  # type: ignore[assignment] # it is one of them
        if not roles:
            raise ValueError("without it nobody may do anything: 'groups:sre=admin,support=operator,*=viewer'")
        if not claim.strip() and set(roles) != {_EVERYBODY}:
            raise ValueError("the claim is missing: 'groups:sre=admin'")
        return cls(claim.strip(), roles)

    def role(self, claims: Mapping[str, Any]) -> Role | None:
        """Return the highest role that follows; None if there is none."""
        said = _at(claims, self.claim)
        values = said if isinstance(said, list) else [said]
        found = {self.roles[value] for value in values if isinstance(value, str) and value in self.roles}
        if _EVERYBODY in self.roles:
            found.add(self.roles[_EVERYBODY])
        return max(found, key=ROLES.index, default=None)


def name_of(claims: Mapping[str, Any]) -> str:
    """Return what somebody is called: a name that people know, with the subject, which alone is theirs for good."""
    subject = _plain(claims["sub"])
    shown = next((_plain(claims[name]) for name in ("preferred_username", "email", "name") if claims.get(name)), "")
    return subject if shown in ("", subject) else f"{shown} ({subject})"


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim, by its name or, where claims lie in claims, by names with dots between (`realm_access.roles`)."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _plain(said: object) -> str:
    return "".join(one if one.isprintable() else "?" for one in str(said)[:_LONGEST])
