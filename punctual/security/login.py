"""The login to a cluster's brokers, from checked settings."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from punctual.security.errors import LoginInvalid
from punctual.security.secret_file import SecretFile

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
_OAUTH: Final = "SASL_OAUTHBEARER_"
#: The settings, without `KAFKA_` before them. Those of OAUTHBEARER have the names of librdkafka and Kafka.
NAMES: Final = (
    *("SECURITY_PROTOCOL", "SASL_MECHANISM", "SASL_USERNAME", "SASL_PASSWORD", "SASL_PASSWORD_FILE"),
    *("SSL_CAFILE", "SSL_CERTFILE", "SSL_KEYFILE"),
    *(f"{_OAUTH}{name}" for name in ("TOKEN_ENDPOINT_URL", "CLIENT_ID", "CLIENT_SECRET", "CLIENT_SECRET_FILE")),
    *(f"{_OAUTH}{name}" for name in ("SCOPE", "EXTENSIONS", "CAFILE")),
)
#: Settings whose values are never shown.
SECRETS: Final = ("SASL_PASSWORD", f"{_OAUTH}CLIENT_SECRET")
#: The maximum number of cached logins, more than there are clusters.
_KEPT: Final = 64
_FILES: Final = ("SSL_CAFILE", "SSL_CERTFILE", "SSL_KEYFILE")
_NEAR: Final = re.compile(r"http://(localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?(/[^\s?#]*)?")
_SECURE: Final = re.compile(r"https://[^\s/?#@\\]+(/[^\s#\\]*)?")
_EXTENSION: Final = re.compile(r"[A-Za-z]+")  # RFC 7628, section 3.1


@dataclass(frozen=True)
class OAuthClient:
    """A client at a token endpoint (RFC 6749, section 4.4); `extensions` are for the brokers (RFC 7628)."""

    token_endpoint: str
    id: str
    secret: str | SecretFile = field(repr=False)
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    cafile: str = ""


@dataclass(frozen=True)
class Login:
    """A login to a cluster's brokers; fields that it does not need are empty."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str | SecretFile = field(default="", repr=False)
    cafile: str = ""
    certfile: str = ""
    keyfile: str = ""
    oauth: OAuthClient | None = None

    @property
    def encrypts(self) -> bool:
        """Whether connections use TLS."""
        return "SSL" in self.protocol

    @property
    def sasl(self) -> bool:
        """Whether the login uses SASL, with a user or a token."""
        return self.protocol.startswith("SASL")

    @property
    def user(self) -> str:
        """The user as brokers know it, if it is known here; a certificate's or a token's subject is not."""
        if not self.sasl:
            return ""
        return self.username if self.oauth is None else self.oauth.id


def login_from_env(env: Mapping[str, str] = os.environ) -> Login:
    """Return the login in the variables `KAFKA_…`. Raises LoginInvalid, whose name is without `KAFKA_`."""
    return login_of({name: env.get(f"KAFKA_{name}", "") for name in NAMES})


def login_of(settings: Mapping[str, str]) -> Login:
    """Return the login for settings by their NAMES; equal settings return the same object.

    Raises LoginInvalid for invalid values, missing secrets, and missing files.
    """
    return _checked(tuple(settings.get(name, "") for name in NAMES))


@lru_cache(maxsize=_KEPT)
def _checked(values: tuple[str, ...]) -> Login:
    """Return the login, checked once: a file that disappears later does not affect running programs."""
    settings = dict(zip(NAMES, values, strict=True))
    protocol = _one_of(settings, "SECURITY_PROTOCOL", PROTOCOLS)
    mechanism = _one_of(settings, "SASL_MECHANISM", MECHANISMS, DEFAULT_MECHANISM)
    files = _files(settings) if "SSL" in protocol else ("", "", "")
    if not protocol.startswith("SASL"):
        return Login(protocol, "", "", "", *files)
    if mechanism == OAUTHBEARER:
        return Login(protocol, mechanism, "", "", *files, _oauth(settings))
    if not settings.get("SASL_USERNAME"):
        raise LoginInvalid("SASL_USERNAME", "''", f"{protocol} needs a user")
    return Login(protocol, mechanism, settings["SASL_USERNAME"], _secret(settings, "SASL_PASSWORD"), *files)


def _one_of(settings: Mapping[str, str], name: str, choices: tuple[str, ...], default: str = "") -> str:
    value = settings.get(name) or default or choices[0]
    if value not in choices:
        raise LoginInvalid(name, repr(value[:64]), f"it must be one of {', '.join(choices)}")
    return value


def _files(settings: Mapping[str, str]) -> tuple[str, str, str]:
    ca, certificate, key = (settings.get(name, "") for name in _FILES)
    for name, file in zip(_FILES, (ca, certificate, key), strict=True):
        if file and not os.access(file, os.R_OK):
            raise LoginInvalid(name, repr(file), "there is no such file, or it cannot be read")
    return ca, certificate, key


def _secret(settings: Mapping[str, str], name: str) -> str | SecretFile:
    """Return a secret, or the file that contains it, after checking that there is one."""
    path, text = settings.get(f"{name}_FILE", ""), settings.get(name, "")
    if not path:
        return text
    if text:
        raise LoginInvalid(f"{name}_FILE", repr(path), f"{name} is set too. Remove one of the two")
    file = SecretFile(path)
    try:
        file.text()
    except ValueError as error:
        raise LoginInvalid(f"{name}_FILE", repr(path), str(error)) from error
    return file


def _oauth(settings: Mapping[str, str]) -> OAuthClient:
    url, client = settings.get(f"{_OAUTH}TOKEN_ENDPOINT_URL", ""), settings.get(f"{_OAUTH}CLIENT_ID", "")
    if not (_SECURE.fullmatch(url) or _NEAR.fullmatch(url)):
        why = "OAUTHBEARER needs the https:// address of a token endpoint; http:// only on this machine"
        raise LoginInvalid(f"{_OAUTH}TOKEN_ENDPOINT_URL", repr(url), why)
    if not client:
        raise LoginInvalid(f"{_OAUTH}CLIENT_ID", "''", "OAUTHBEARER needs a client at the token endpoint")
    secret = _secret(settings, f"{_OAUTH}CLIENT_SECRET")
    if not secret:
        raise LoginInvalid(f"{_OAUTH}CLIENT_SECRET", "''", f"the client {client} needs a secret, or a file of it")
    cafile = settings.get(f"{_OAUTH}CAFILE", "")
    if cafile and not os.access(cafile, os.R_OK):
        raise LoginInvalid(f"{_OAUTH}CAFILE", repr(cafile), "there is no such file, or it cannot be read")
    return OAuthClient(url, client, secret, settings.get(f"{_OAUTH}SCOPE", ""), _extensions(settings), cafile)


def _extensions(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    text = settings.get(f"{_OAUTH}EXTENSIONS", "")
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    for name, _, value in pairs:
        if not _EXTENSION.fullmatch(name) or name == "auth" or not value.isprintable() or not value:
            raise LoginInvalid(f"{_OAUTH}EXTENSIONS", repr(text), "name=value,… is needed, names of letters")
    return tuple((name, value) for name, _, value in pairs)
