"""What a provider says of somebody: their name, and what they may by their groups."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Self

import msgspec

from app.access.roles import ROLES, Grant, namespaces_of

_EVERYBODY: Final = "*"
_LONGEST: Final = 100


class RoleRules(msgspec.Struct, frozen=True):
    """What follows from a claim's values: `groups:sre=admin,orders=operator@team-a+team-b,*=viewer`."""

    claim: str
    grants: Mapping[str, Grant]

    @classmethod
    def parse(cls, text: str, namespaces: Collection[str] = ()) -> Self:
        """Read rules, which may name these namespaces. Raises ValueError with what is needed instead."""
        claim, colon, pairs = text.rpartition(":") if ":" in text.partition("=")[0] else ("", "", text)
        if colon:
            claim, _, pairs = text.partition(":")
        grants: dict[str, Grant] = {}
        for pair in filter(None, (part.strip() for part in pairs.split(","))):
            value, equals, said = pair.rpartition("=")
            role, at, within = said.strip().partition("@")
            if not equals or role not in ROLES:
                raise ValueError(f"{pair!r} is not of the form value=role, the role one of {', '.join(ROLES)}")
            bound = namespaces_of(within, "+", namespaces) if at else None
            grants[value.strip()] = Grant(role, bound)
        if not grants:
            raise ValueError("without it nobody may do anything: 'groups:sre=admin,support=operator,*=viewer'")
        if not claim.strip() and set(grants) != {_EVERYBODY}:
            raise ValueError("the claim is missing: 'groups:sre=admin'")
        return cls(claim.strip(), grants)

    def grant(self, claims: Mapping[str, Any]) -> Grant | None:
        """Return the highest role that follows, with the namespaces of all rules that give it; None if there is none.

        Where one of these rules names no namespaces, that is the whole installation.
        """
        said = _at(claims, self.claim)
        values = said if isinstance(said, list) else [said]
        found = [self.grants[value] for value in values if isinstance(value, str) and value in self.grants]
        if _EVERYBODY in self.grants:
            found.append(self.grants[_EVERYBODY])
        if not found:
            return None
        role = max((one.role for one in found), key=ROLES.index)
        within = [one.namespaces for one in found if one.role == role]
        if None in within:
            return Grant(role)
        return Grant(role, tuple(sorted({name for names in within if names is not None for name in names})))


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
