"""The file of DELAY_WEB_OIDC_FILE: the OpenID Connect provider of the console, and the roles of its users."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from app.settings.values import provider_address

_REQUIRED: Final = ("issuer", "client_id", "roles")
_KEYS: Final = (*_REQUIRED, "client_secret_file", "scopes")


@dataclass(frozen=True)
class ProviderFile:
    """The contents of the file: each attribute is a key."""

    issuer: str
    client_id: str
    #: Rules such as `groups:sre=admin,*=viewer` (app/serve/access/claims.py).
    roles: str
    #: Empty for a public client.
    client_secret_file: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")

    @classmethod
    def read(cls, path: str) -> Self:
        """Read and check the file. Raises ValueError, which names the key and its correct form."""
        said = _table(path)
        stranger = next((key for key in said if key not in _KEYS), None)
        if stranger is not None:
            raise ValueError(f"the file has {stranger!r}, which is not a known key. The keys are {', '.join(_KEYS)}")
        missing = next((key for key in _REQUIRED if not said.get(key)), None)
        if missing is not None:
            raise ValueError(f"the file has no {missing}. Add it, such as {_EXAMPLES[missing]}")
        scopes = said.pop("scopes", list(cls.scopes))
        if not isinstance(scopes, list) or not scopes or not all(isinstance(scope, str) for scope in scopes):
            raise ValueError('scopes must be a list of texts, such as ["openid", "profile", "email"]')
        wrong = next((key for key, value in said.items() if not isinstance(value, str)), None)
        if wrong is not None:
            raise ValueError(f"{wrong} must be text, in quotes")
        found = cls(**said, scopes=tuple(scopes))
        _check(found)
        return found


_EXAMPLES: Final[Mapping[str, str]] = {
    "issuer": 'issuer = "https://login.example.com/realms/main"',
    "client_id": 'client_id = "punctual"',
    "roles": 'roles = "groups:sre=admin,*=viewer"; without roles, no user may do anything',
}


def _table(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ValueError(f"the file cannot be read: {why}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the file is not valid TOML: {error}") from None


def _check(found: ProviderFile) -> None:
    try:
        provider_address(found.issuer)
    except ValueError as error:
        raise ValueError(f"issuer {found.issuer!r}: {error}") from error
    secret = found.client_secret_file
    if secret and not os.access(secret, os.R_OK):
        raise ValueError(f"client_secret_file {secret!r}: there is no such file, or it cannot be read")
