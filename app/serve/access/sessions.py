"""Sessions of users who have signed in with a provider: signed cookies, which all workers accept."""

import secrets
from typing import Final

import msgspec
from aiohttp import web

from app.base.clock import Clock
from app.serve.access.cookies import CookieSigner, RevokedIds, put_cookie

#: The maximum time of a session since its sign-in, and since its last use.
LONGEST_S: Final = 8 * 3_600
IDLE_S: Final = 3_600
#: How often the time of the last use is written into the cookie.
_NOTED_S: Final = 60
#: The maximum difference between clocks of workers.
_OFF_S: Final = 60


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a session; its beginning and its last use, in seconds of Unix time.

    `groups` are the user's groups at the sign-in, whose permissions are in the access file; `provider` is a digest of
    the provider.
    """

    id: str
    name: str
    groups: tuple[str, ...]
    provider: str
    began_s: int
    used_s: int


_SESSION: Final = web.RequestKey("session", Session)


class Sessions:
    """Begins, reads and ends sessions; with `secure` cookies are only sent over HTTPS."""

    def __init__(self, key: bytes, *, secure: bool) -> None:
        """Sign sessions with `key`."""
        self._signer, self._secure = CookieSigner(key, "session"), secure
        self._ended = RevokedIds(LONGEST_S + _OFF_S)
        #: With this prefix no other host of the same domain can set the cookie (RFC 6265bis, 4.1.3.2).
        self.cookie: Final = "__Host-punctual" if secure else "punctual-session"

    def begin(self, answer: web.StreamResponse, name: str, groups: tuple[str, ...], provider: str) -> None:
        """Begin a session with a new random ID, and put its cookie into a response."""
        now_s = _now_s()
        session = Session(
            id=secrets.token_urlsafe(18),
            name=name,
            groups=groups,
            provider=provider,
            began_s=now_s,
            used_s=now_s,
        )
        self._write(answer, session)

    def read(self, request: web.Request) -> Session | None:
        """Return a request's session; None without a valid session."""
        session = self._signer.read(request.cookies.get(self.cookie, ""), Session)
        if session is None or session.id in self._ended:
            return None
        now_s = _now_s()
        if not (-_OFF_S <= now_s - session.began_s < LONGEST_S and -_OFF_S <= now_s - session.used_s < IDLE_S):
            return None
        request[_SESSION] = session
        return session

    def renew(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Write the time of the last use into the cookie, if the response has not been sent."""
        session, now_s = request.get(_SESSION), _now_s()
        if session is None or answer.prepared or now_s - session.used_s < _NOTED_S or session.id in self._ended:
            return
        self._write(answer, msgspec.structs.replace(session, used_s=now_s))

    def end(self, request: web.Request, answer: web.StreamResponse) -> str:
        """End a request's session, including copies of its cookie, and return its ID, or "" without a session."""
        session = self.read(request)
        answer.set_cookie(self.cookie, "", max_age=0, path="/", httponly=True, samesite="Lax", secure=self._secure)
        if session is None:
            return ""
        self.forget(session.id)
        return session.id

    def forget(self, id_: str) -> None:
        """Store that a session has ended, here or on another worker."""
        self._ended.add(id_, _now_s())

    def _write(self, answer: web.StreamResponse, session: Session) -> None:
        left_s = max(1, session.began_s + LONGEST_S - _now_s())
        put_cookie(answer, self.cookie, self._signer.sign(session), left_s, secure=self._secure)


def _now_s() -> int:
    return Clock.wall_ms() // 1_000
