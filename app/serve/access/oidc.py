"""Sign-in and sign-out with an OpenID Connect provider."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from aiohttp import web

from app.base.clock import Clock
from app.serve.access.caller import Caller
from app.serve.access.claims import RoleRules, name_of
from app.serve.access.cookies import CookieSigner, RevokedIds, put_cookie, signing_key
from app.serve.access.errors import ProviderFailed, TokenRefused
from app.serve.access.sessions import Sessions
from app.serve.access.sign_in import PATIENCE_S, SIGN_IN, SignIn, local_address, redirect
from app.serve.web.answers import as_json
from app.settings.web import WebSettings

if TYPE_CHECKING:
    from app.serve.access.provider import Provider

_LONGEST_TOKEN: Final = 8_192

log = logging.getLogger(__name__)


class Oidc:
    """Answers the requests of a sign-in with a provider."""

    def __init__(
        self,
        web_settings: WebSettings,
        people_url: str,
        rules: RoleRules,
        provider: "Provider",
        bound_to: Iterable[str],
    ) -> None:
        """Use `provider`, and give roles by `rules`; sessions end when any text in `bound_to` changes."""
        self._rules, self._provider = rules, provider
        self._redirect_uri = f"{people_url}{SIGN_IN}/done"
        self._secure = people_url.startswith("https://")
        key = secrets.token_bytes(32)
        if web_settings.secret:
            key = signing_key(web_settings.secret, "\0".join(bound_to))
        self.sessions = Sessions(key, secure=self._secure)
        self._signer, self._done = CookieSigner(key, "sign-in"), RevokedIds(PATIENCE_S)
        self._cookie = "__Host-punctual-sign-in" if self._secure else "punctual-sign-in"
        self.tell_others: Callable[[str], Awaitable[None]] | None = None

    async def close(self, _: web.Application) -> None:
        """Close the connections to the provider."""
        await self._provider.close()

    async def bearer(self, token: str) -> Caller | None:
        """Return the user of a token of the provider; None if it is not accepted."""
        if len(token) > _LONGEST_TOKEN:
            return None
        try:
            claims = await self._provider.verified(token)
        except (ProviderFailed, TokenRefused) as error:
            log.info("rejected a bearer token: %s", error)
            return None
        grant = self._rules.grant(claims)
        if grant is None:
            return None
        return Caller(name_of(claims), grant.role, namespaces=grant.namespaces, until_s=int(claims["exp"]))

    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/begin: send the browser to the provider."""
        sign_in = SignIn.begin(request.query.get("next", "/"), Clock.wall_ms() // 1_000)
        try:
            answer = redirect(await self._provider.address(sign_in, self._redirect_uri))
        except ProviderFailed as error:
            return _failed("provider", error)
        put_cookie(answer, self._cookie, self._signer.sign(sign_in), PATIENCE_S, secure=self._secure)
        return answer

    async def done(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /sign-in/done: begin a session, because the provider has sent the browser back."""
        sign_in, query = self._signer.read(request.cookies.get(self._cookie, ""), SignIn), request.query
        if sign_in is None or not self._belongs(sign_in, query):
            return self._forgotten(_failed("again", "it does not belong to a login that this browser started"))
        if "error" in query:
            return self._forgotten(_failed("refused", f"the provider says {query['error']!r:.100}"))
        try:
            claims = await self._provider.claims(query.get("code", ""), sign_in, self._redirect_uri)
        except (ProviderFailed, TokenRefused) as error:
            return self._forgotten(_failed("provider", error))
        grant, name = self._rules.grant(claims), name_of(claims)
        if grant is None:
            return self._forgotten(_failed("no-role", f"{name} has none of the roles in DELAY_WEB_OIDC_FILE"))
        log.info("%s signed in as %s", name, grant.role)
        answer = redirect(local_address(sign_in.back))
        self.sessions.begin(answer, name, grant)
        return self._forgotten(answer)

    def _belongs(self, sign_in: SignIn, query: Mapping[str, str]) -> bool:
        """Return whether the query belongs to a sign-in that this browser began, and is the first response to it."""
        now_s = Clock.wall_ms() // 1_000
        known = secrets.compare_digest(sign_in.state.encode(), query.get("state", "").encode(errors="replace"))
        return known and 0 <= now_s - sign_in.began_s + 60 <= PATIENCE_S + 60 and self._done.add(sign_in.state, now_s)

    async def out(self, request: web.Request) -> web.StreamResponse:
        """Answer POST /sign-out: end the session on all workers."""
        answer = redirect(f"{SIGN_IN}?said=out")
        ended = self.sessions.end(request, answer)
        if ended and self.tell_others is not None:
            await self.tell_others(ended)
        return answer

    async def ended(self, request: web.Request) -> web.StreamResponse:
        """Answer another worker on which a session has ended: end it here too."""
        self.sessions.forget(request.query.get("id", ""))
        return as_json({"partitions": []})

    def _forgotten(self, answer: web.StreamResponse) -> web.StreamResponse:
        put_cookie(answer, self._cookie, "", 0, secure=self._secure)
        return answer


def _failed(said: str, why: object) -> web.StreamResponse:
    log.warning("a sign-in failed: %s", why)
    return redirect(f"{SIGN_IN}?said={said}")
