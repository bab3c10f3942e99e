"""The OpenID Connect provider: its URLs, its keys, and the claims in its tokens. Needs the extra `oidc`."""

import asyncio
import contextlib
import math
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote_plus

import aiohttp
import msgspec
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from app.base.clock import Clock
from app.base.listening.bodies import read_bounded
from app.serve.access.entries import Provider as Table
from app.serve.access.sign_in import ProviderFailed, SignIn
from app.settings.values import is_private

#: A value is refreshed after the first time. While the provider is down, the old value is used up to the second.
_FRESH_S, _USABLE_S = 3_600.0, 6 * 3_600.0
#: A provider that is down is asked again after the first time, because requests would queue up behind each try. The
#: second applies while an old value can be used, and to unknown keys: anybody can send tokens that name them.
_DOWN_S, _AGAIN_S = 5.0, 30.0

_Value = TypeVar("_Value")


class Cached(Generic[_Value]):
    """One value that the provider returns."""

    def __init__(self, fetch: Callable[[], Awaitable[_Value]], initial: _Value) -> None:
        """Call `fetch`, which may raise ProviderFailed, once the value is needed; `initial` is the value until then."""
        self._fetch, self._value = fetch, initial
        self._refreshed_s = self._tried_s = -math.inf
        #: The error of the last try, if it failed.
        self._error = ""
        self._lock: Final = asyncio.Lock()

    async def get(self) -> _Value:
        """Return the value: at most an hour old, or some hours if the provider is down. Raises ProviderFailed."""
        if self._age_s < _FRESH_S or (self._usable and self._lock.locked()):
            return self._value
        async with self._lock:
            is_down = bool(self._error) and _now_s() - self._tried_s < (_AGAIN_S if self._usable else _DOWN_S)
            if self._age_s >= _FRESH_S and not is_down:
                with contextlib.suppress(ProviderFailed):
                    await self._refresh()
            if not self._usable:
                raise ProviderFailed(self._error)
            return self._value

    async def newer(self, stale: _Value) -> _Value:
        """Return a newer value than the `stale` one; the same value if the provider was asked a moment ago.

        Raises ProviderFailed.
        """
        async with self._lock:
            if self._value is stale and _now_s() - self._tried_s >= _AGAIN_S:
                return await self._refresh()
            return self._value

    async def _refresh(self) -> _Value:
        try:
            self._value, self._error = await self._fetch(), ""
            self._refreshed_s = _now_s()
        except ProviderFailed as error:
            self._error = str(error)
            raise
        finally:
            self._tried_s = _now_s()
        return self._value

    @property
    def _age_s(self) -> float:
        return _now_s() - self._refreshed_s

    @property
    def _usable(self) -> bool:
        return self._age_s < _USABLE_S


def _now_s() -> float:
    return asyncio.get_running_loop().time()


#: Only algorithms with the provider's own key: neither `none` nor those with a shared secret.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_KEY_TYPES: Final = ("RSA", "EC", "OKP")
_PATIENCE: Final = aiohttp.ClientTimeout(total=10, connect=5)
_LARGEST: Final = 1 << 20
_LEEWAY_S: Final = 60
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Provider:
    """A provider, with this installation as its client."""

    def __init__(self, table: Table) -> None:
        self._issuer, self._client_id, self._scopes = table.issuer, table.client_id, " ".join(table.scopes)
        self._secret_file = Path(table.client_secret_file) if table.client_secret_file else None
        self._session: aiohttp.ClientSession | None = None
        self._metadata = Cached[dict[str, Any]](self._fetch_metadata, {})
        self._keys = Cached(self._fetch_keys, KeySet([]))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def address(self, sign_in: SignIn, redirect_uri: str) -> str:
        """Return the URL at which a browser signs in. Raises ProviderFailed."""
        metadata = await self._metadata.get()
        challenge = create_s256_code_challenge(sign_in.verifier)
        url: str = prepare_grant_uri(
            metadata["authorization_endpoint"],
            self._client_id,
            "code",
            redirect_uri=redirect_uri,
            scope=self._scopes,
            state=sign_in.state,
            nonce=sign_in.nonce,
            code_challenge=challenge,
            code_challenge_method="S256",
        )
        return url

    async def claims(self, code: str, sign_in: SignIn, redirect_uri: str) -> Mapping[str, Any]:
        """Return the claims of a user who has signed in. Raises ProviderFailed."""
        metadata = await self._metadata.get()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": sign_in.verifier,
        }
        headers = self._authenticate(form, metadata.get("token_endpoint_auth_methods_supported"))
        answer = await self._fetch("POST", metadata["token_endpoint"], data=form, headers=headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderFailed("the provider returned no ID token. Add `openid` to the scopes of its client")
        access = answer.get("access_token")
        return await self.verified(token, nonce=sign_in.nonce, access_token=access if isinstance(access, str) else "")

    async def verified(self, token: str, nonce: str = "", access_token: str = "") -> Mapping[str, Any]:
        """Return the claims of a token, after checking its issuer, audience, signature and expiry.

        Raises ProviderFailed.
        """
        try:
            decoded = await self._decoded(token)
            options = {
                "iss": {"essential": True, "value": self._issuer},
                "aud": {"essential": True, "value": self._client_id},
            }
            params = {"nonce": nonce, "client_id": self._client_id, "access_token": access_token}
            claims = CodeIDToken(decoded.claims, decoded.header, options, params)
            claims.validate(now=Clock.wall_ms() // 1_000, leeway=_LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise ProviderFailed(f"the token is not accepted: {error}") from error
        return dict(claims)

    async def _decoded(self, token: str) -> jwt.Token:
        """Return a token decoded with the cached keys, or with the provider's current keys."""
        keys = await self._keys.get()
        try:
            return jwt.decode(token, keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            newer = await self._keys.newer(keys)
            if newer is keys:
                raise
            return jwt.decode(token, newer, algorithms=ALGORITHMS)

    def _authenticate(self, form: dict[str, str], methods: list[str] | None) -> dict[str, str]:
        """Add the client's secret, if there is one, in the way that the provider accepts (RFC 6749, 2.3.1)."""
        try:
            secret = self._secret_file.read_text("utf-8").strip() if self._secret_file else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ProviderFailed(f"client_secret_file of the provider cannot be read: {error}") from error
        if not secret or (methods and "client_secret_basic" not in methods):
            form["client_id"] = self._client_id
            if secret:
                form["client_secret"] = secret
            return {}
        credentials = f"{quote_plus(self._client_id)}:{quote_plus(secret)}"
        return {"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}

    async def _fetch_metadata(self) -> dict[str, Any]:
        metadata = await self._fetch("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != self._issuer:
            raise ProviderFailed(f"the provider's issuer is {metadata.get('issuer')!r:.200}, not {self._issuer!r}")
        for name in _ENDPOINTS:
            if not is_private(str(metadata.get(name))):
                raise ProviderFailed(f"the provider's {name} is {metadata.get(name)!r:.200}")
        return metadata

    async def _fetch_keys(self) -> KeySet:
        document = await self._fetch("GET", (await self._metadata.get())["jwks_uri"])
        try:
            keys = [key for key in document.get("keys", ()) if key.get("kty") in _KEY_TYPES and key.get("use") != "enc"]
            return KeySet.import_key_set({"keys": keys}) if keys else KeySet([])
        except (JoseError, ValueError, TypeError, AttributeError) as error:
            raise ProviderFailed(f"the provider's keys cannot be read: {error!r:.200}") from error

    async def _fetch(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_PATIENCE, headers={"Accept": "application/json"})
        try:
            async with self._session.request(method, url, allow_redirects=False, **options) as answer:
                body = await read_bounded(answer.content, _LARGEST)
                if body is None:
                    raise ProviderFailed(f"the provider's response is larger than {_LARGEST >> 10} KiB")
                document = msgspec.json.decode(body)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError, RecursionError) as error:
            raise ProviderFailed(f"the provider did not respond as expected ({type(error).__name__})") from error
        if answer.status != 200 or not isinstance(document, dict):  # noqa: PLR2004 - OK
            reason = document.get("error") if isinstance(document, dict) else ""
            raise ProviderFailed(f"the provider returned {answer.status} {reason!r:.100}")
        return document
