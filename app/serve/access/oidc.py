"""Sign-in and sign-out with an OpenID Connect provider."""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from app.base.clock import Clock
from app.base.newest import Newest
from app.serve.access.caller import Caller
from app.serve.access.entries import Access
from app.serve.access.entries import Provider as ProviderTable
from app.serve.access.sessions import MOST_IDS, CookieSigner, Sessions, put_cookie
from app.serve.access.sign_in import PATIENCE_S, SIGN_IN, ProviderFailed, SignIn, local_address, redirect
from app.serve.web.answers import as_json

if TYPE_CHECKING:
    from app.serve.access.provider import Provider

_LONGEST_TOKEN: Final = 8_192

#: The maximum characters of a name and of a subject.
_LONGEST_NAME: Final = 100
#: The prefix of a subject without a readable name.
_PREFIX: Final = "oidc:"

log = logging.getLogger(__name__)


class Oidc:
    """Answers the requests of a sign-in with a provider."""

    def __init__(
        self, people_url: str, key: bytes, access: Callable[[], Access], provider: "Callable[[ProviderTable], Provider]"
    ) -> None:
        """Sign in with the provider in `access`, whose client `provider` returns, and sign sessions with `key`."""
        self._access, self._new_client = access, provider
        self._client: tuple[ProviderTable, Provider] | None = None
        self._redirect_uri = f"{people_url}{SIGN_IN}/done"
        self._secure = people_url.startswith("https://")
        self.sessions = Sessions(key, secure=self._secure)
        self._signer, self._used_states = CookieSigner(key, "sign-in"), Newest[str, None](MOST_IDS)
        self._cookie = "__Host-punctual-sign-in" if self._secure else "punctual-sign-in"
        self.end_on_others: Callable[[str], Awaitable[None]] | None = None

    async def close(self, _: web.Application) -> None:
        """Close the connections to the provider."""
        if self._client is not None:
            await self._client[1].close()

    async def _provider(self) -> "Provider":
        """Return the client of the provider in the access file. Raises ProviderFailed if there is none any more."""
        table = self._access().provider
        if table is None:
            raise ProviderFailed("the access file has no [provider] any more")
        if self._client is None or self._client[0] != table:
            former, self._client = self._client, (table, self._new_client(table))
            if former is not None:
                await former[1].close()
        return self._client[1]

    async def bearer(self, token: str) -> "Callable[[], Caller | None] | None":
        """Return a function that returns the user of a token of the provider while the token is valid; None if not."""
        if len(token) > _LONGEST_TOKEN:
            return None
        try:
            claims = await (await self._provider()).verified(token)
        except ProviderFailed as error:
            log.info("rejected a bearer token: %s", error)
            return None
        name, groups, until_s = name_of(claims), self._groups(claims), int(claims["exp"])
        return lambda: self._access().caller(name, groups, until_s=until_s)

    def with_session(self, request: web.Request) -> Caller | None:
        """Return the user of a request's session, with the present permissions of the user's groups."""
        session, access = self.sessions.read(request), self._access()
        if session is None or session.provider != _digest(access.provider):
            return None
        return access.caller(session.name, session.groups, session.id)

    def _groups(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        access = self._access()
        groups = set() if access.provider is None else set(groups_of(claims, access.provider.claim))
        return tuple(sorted(groups & access.groups.keys()))

    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/begin: send the browser to the provider."""
        sign_in = SignIn.begin(request.query.get("next", "/"), Clock.wall_ms() // 1_000)
        try:
            answer = redirect(await (await self._provider()).address(sign_in, self._redirect_uri))
        except ProviderFailed as error:
            return _failed("provider", error)
        put_cookie(answer, self._cookie, self._signer.sign(sign_in), PATIENCE_S, secure=self._secure)
        return answer

    async def done(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/done: begin a session, because the provider has sent the browser back."""
        answer = await self._completed(request.query, request.cookies.get(self._cookie, ""))
        put_cookie(answer, self._cookie, "", 0, secure=self._secure)
        return answer

    async def _completed(self, query: Mapping[str, str], cookie: str) -> web.StreamResponse:
        sign_in = self._signer.read(cookie, SignIn)
        if sign_in is None or not self._belongs(sign_in, query):
            return _failed("again", "it does not belong to a login that this browser started")
        if "error" in query:
            return _failed("refused", f"the provider says {query['error']!r:.100}")
        try:
            claims = await (await self._provider()).claims(query.get("code", ""), sign_in, self._redirect_uri)
        except ProviderFailed as error:
            return _failed("provider", error)
        groups, name = self._groups(claims), name_of(claims)
        grant = self._access().grant(groups)
        if grant is None:
            return _failed("no-role", f"{name} is in none of the groups that have a role")
        log.info("%s signed in as %s", name, grant.role)
        answer = redirect(local_address(sign_in.back))
        self.sessions.begin(answer, name, groups, _digest(self._access().provider))
        return answer

    def _belongs(self, sign_in: SignIn, query: Mapping[str, str]) -> bool:
        """Return whether the query belongs to a sign-in that this browser began, and is the first response to it."""
        now_s = Clock.wall_ms() // 1_000
        same_state = secrets.compare_digest(sign_in.state.encode(), query.get("state", "").encode(errors="replace"))
        is_recent = 0 <= now_s - sign_in.began_s + 60 <= PATIENCE_S + 60
        if not (same_state and is_recent) or sign_in.state in self._used_states:
            return False
        self._used_states[sign_in.state] = None
        return True

    async def out(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /sign-out: end the session on all workers."""
        answer = redirect(f"{SIGN_IN}?said=out")
        session_id = self.sessions.end(request, answer)
        if session_id and self.end_on_others is not None:
            await self.end_on_others(session_id)
        return answer

    async def ended(self, request: web.Request) -> web.StreamResponse:
        """Answer another worker on which a session has ended: end it here too."""
        self.sessions.forget(request.query.get("id", ""))
        return as_json({"partitions": []})


def _digest(provider: ProviderTable | None) -> str:
    """Return a text that changes with the provider, so that sessions of another provider are not valid."""
    if provider is None:
        return ""
    parts = (provider.issuer, provider.client_id, provider.claim)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _failed(outcome: str, cause: object) -> web.StreamResponse:
    log.warning("a sign-in failed: %s", cause)
    return redirect(f"{SIGN_IN}?said={outcome}")


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
    return "".join(char if char.isprintable() else "?" for char in str(value)[:_LONGEST_NAME])
