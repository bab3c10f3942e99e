"""A user's name and groups in the claims of a provider."""

from collections.abc import Mapping
from typing import Any, Final

_LONGEST: Final = 100
#: The prefix of a subject without a readable name.
_PREFIX: Final = "oidc:"


def groups_of(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """Return the groups of a user: the texts in a claim, which may be nested (`realm_access.roles`)."""
    value = _at(claims, claim)
    return tuple(group for group in (value if isinstance(value, list) else [value]) if isinstance(group, str))


def name_of(claims: Mapping[str, Any]) -> str:
    """Return a user's name: a readable name with the subject, because only the subject is unique and permanent.

    It has a blank or a colon, which names in an access file never have: rate limits, idempotency keys and the audit
    would take a user of both for one.
    """
    subject = _plain(claims["sub"])
    readable = next((_plain(claims[name]) for name in ("preferred_username", "email", "name") if claims.get(name)), "")
    return f"{_PREFIX}{subject}" if readable in ("", subject) else f"{readable} ({subject})"


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or a nested claim by names with dots between (`realm_access.roles`)."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _plain(value: object) -> str:
    return "".join(char if char.isprintable() else "?" for char in str(value)[:_LONGEST])
