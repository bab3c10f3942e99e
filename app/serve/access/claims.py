"""Derives a user's name and role from the claims of a provider."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from app.serve.access.caller import ROLES, Grant, namespaces_of

_EVERYBODY: Final = "*"
_LONGEST: Final = 100


class RoleRules(msgspec.Struct, frozen=True):
    """Rules from a claim's values to roles: `groups:sre=admin,orders=operator@team-a+team-b,*=viewer`.

    Several rules may have the same value. A claim with a colon in its name is in brackets:
    `[cognito:groups]:sre=admin`.
    """

    claim: str
    grants: Mapping[str, Sequence[Grant]]

    @classmethod
    def parse(cls, text: str, namespaces: Collection[str] = ()) -> Self:
        """Read rules, which may name these namespaces. Raises ValueError with the correct form."""
        claim, pairs = _parted(text.strip())
        grants: dict[str, list[Grant]] = {}
        for pair in filter(None, (part.strip() for part in pairs.split(","))):
            value, equals, said = pair.rpartition("=")
            role, at, within = said.strip().partition("@")
            if not equals or role not in ROLES:
                raise ValueError(f"{pair!r} is not of the form value=role. The roles are {', '.join(ROLES)}")
            bound = namespaces_of(within, "+", namespaces) if at else None
            grants.setdefault(value.strip(), []).append(Grant(role, bound))
        if not grants:
            raise ValueError(
                "without it, no user has a role. For example: 'groups:sre=admin,support=operator,*=viewer'"
            )
        if not claim and set(grants) != {_EVERYBODY}:
            raise ValueError("it has no claim, as in 'groups:sre=admin'")
        return cls(claim, grants)

    def grant(self, claims: Mapping[str, Any]) -> Grant | None:
        """Return the highest role that the rules give, with the namespaces of all rules that give it; None for no role.

        If any such rule has no namespaces, the role is for the whole installation.
        """
        said = _at(claims, self.claim)
        values = said if isinstance(said, list) else [said]
        fitting = {value for value in values if isinstance(value, str)} | {_EVERYBODY}
        found = [one for value in fitting for one in self.grants.get(value, ())]
        if not found:
            return None
        role = max((one.role for one in found), key=ROLES.index)
        within = [one.namespaces for one in found if one.role == role]
        if None in within:
            return Grant(role)
        return Grant(role, tuple(sorted({name for names in within if names is not None for name in names})))


def _parted(text: str) -> tuple[str, str]:
    """Return the claim and the rules after it. Raises ValueError if the colon after the claim is ambiguous."""
    if text.startswith("["):
        claim, closed, pairs = text[1:].partition("]:")
        if not closed:
            raise ValueError("']:' is missing after the claim, as in '[cognito:groups]:sre=admin'")
        return claim.strip(), pairs
    head = text.partition("=")[0]
    if head.count(":") > 1:
        raise ValueError(f"{head!r} has more than one colon. Put the claim in brackets: '[cognito:groups]:sre=admin'")
    claim, _, pairs = text.partition(":") if ":" in head else ("", "", text)
    return claim.strip(), pairs


def name_of(claims: Mapping[str, Any]) -> str:
    """Return a user's name: a readable name with the subject, because only the subject is unique and permanent."""
    subject = _plain(claims["sub"])
    shown = next((_plain(claims[name]) for name in ("preferred_username", "email", "name") if claims.get(name)), "")
    return subject if shown in ("", subject) else f"{shown} ({subject})"


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or a nested claim by names with dots between (`realm_access.roles`)."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _plain(said: object) -> str:
    return "".join(one if one.isprintable() else "?" for one in str(said)[:_LONGEST])
