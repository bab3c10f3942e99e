"""Requests a token from a token endpoint with client credentials (RFC 6749, section 4.4)."""

import base64
import binascii
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final, NamedTuple

from punctual.security.errors import TokenError
from punctual.security.login import OAuthClient
from punctual.security.secret_file import SecretFile

_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 1 << 20
#: The assumed lifetime of a token without one.
_LASTS_S: Final = 300.0
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1
_ERROR: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PARTS_OF_A_JWT: Final = 3


class Token(NamedTuple):
    """A token, and its lifetime in seconds from its issue."""

    text: str
    lasts_s: float


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, so that a secret is sent only to the address in the settings."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request for a redirect."""


def ask(client: OAuthClient) -> Token:
    """Return a new token; blocks until the endpoint responds. Raises TokenError."""
    request = urllib.request.Request(client.token_endpoint, _form(client), _headers(client), method="POST")  # noqa: S310 - checked by login_of
    try:
        handlers = [_NoRedirects(), *_https(client)]
        with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
            body = answer.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(client, error.code, error.read(_MOST_BYTES)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise _error(client, f"does not answer: {why}. Check that it can be reached from here") from None
    return _token(client, body)


def _form(client: OAuthClient) -> bytes:
    form = {"grant_type": "client_credentials"}
    if client.scope:
        form["scope"] = client.scope
    return urllib.parse.urlencode(form).encode()


def _headers(client: OAuthClient) -> dict[str, str]:
    secret = client.secret
    try:
        text = secret.text() if isinstance(secret, SecretFile) else secret
    except ValueError as error:
        raise TokenError(f"the file of the client {client.id}'s secret is not usable: {error}.") from error
    # Both are form-encoded before they are joined (RFC 6749, section 2.3.1).
    joined = f"{urllib.parse.quote_plus(client.id)}:{urllib.parse.quote_plus(text)}"
    return {
        "Authorization": f"Basic {base64.b64encode(joined.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }


def _https(client: OAuthClient) -> list[urllib.request.HTTPSHandler]:
    if not client.token_endpoint.startswith("https:"):
        return []
    return [urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=client.cafile or None))]


def _token(client: OAuthClient, body: bytes) -> Token:
    try:
        answer = json.loads(body)
        text, lasts = answer["access_token"], answer.get("expires_in")
        if not isinstance(text, str) or not _TOKEN.fullmatch(text):
            raise _error(client, "returned a token with characters that a header cannot have")
        return Token(text, float(lasts) if lasts is not None else _lasts_s(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _error(client, "returned no token (RFC 6749, section 5.1). Check its address") from None


def _lasts_s(token: str) -> float:
    """Return the seconds from the issue of a JWT to its expiry, or a short default for other tokens."""
    parts = token.split(".")
    if len(parts) != _PARTS_OF_A_JWT:
        return _LASTS_S
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) - float(claims["iat"])
    except (ValueError, TypeError, KeyError, binascii.Error, RecursionError):
        return _LASTS_S


def _refused(client: OAuthClient, status: int, body: bytes) -> TokenError:
    """Return the error for an endpoint's refusal, which contains only the error code (RFC 6749, section 5.2)."""
    try:
        code = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        code = ""
    word = f" {code}" if isinstance(code, str) and _ERROR.fullmatch(code) else ""
    return _error(client, f"returned {status}{word}. Check the client, its secret and its scope")


def _error(client: OAuthClient, what: str) -> TokenError:
    return TokenError(f"the token endpoint {client.token_endpoint}, for the client {client.id}, {what}.")
