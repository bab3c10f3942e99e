"""Sessions of users who have signed in with a provider: signed cookies, which all workers accept."""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from app.base.clock import Clock
from app.base.newest import Newest

_LONGEST: Final = 4_096
#: An owner of a cookie can try secrets against it: each try costs as much as this, which a worker pays once at start.
_LN, _R, _P = 14, 8, 1
#: The maximum number of remembered ended sessions, and of completed sign-ins. Older ones have expired by then.
MOST_IDS: Final = 20_000
#: The maximum characters of an ID that is stored.
_LONGEST_ID: Final = 64

Kind = TypeVar("Kind", bound=msgspec.Struct)


@lru_cache(maxsize=2)
def signing_key(secret: str, installation: str) -> bytes:
    """Return the signing key of an installation, derived from its workers' shared secret."""
    salt = f"punctual sessions 1\0{installation}".encode()
    return hashlib.scrypt(secret.encode(), salt=salt, n=1 << _LN, r=_R, p=_P, maxmem=1 << 26, dklen=32)


def packed(value: msgspec.Struct) -> str:
    """Return a structure as text for a cookie."""
    return urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def unpacked(text: str, kind: type[Kind]) -> Kind | None:
    """Return the structure in a cookie's text; None if there is none."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=kind)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return None


class CookieSigner:
    """Signs and reads values of one kind, which only holders of the key can make or change, but all can read."""

    def __init__(self, key: bytes, purpose: str) -> None:
        """Use `key` for one purpose: values signed for another purpose are not valid."""
        self._key = hmac.digest(key, purpose.encode(), "sha256")

    def sign(self, value: msgspec.Struct) -> str:
        """Return a value as signed text."""
        content = packed(value)
        return f"{content}.{self._signature(content)}"

    def read(self, text: str, kind: type[Kind]) -> Kind | None:
        """Return the value of signed text; None if this key has not signed it."""
        if not text.isascii() or len(text) > _LONGEST:
            return None
        content, dot, signature = text.partition(".")
        is_ours = bool(dot) and hmac.compare_digest(self._signature(content), signature)
        return unpacked(content, kind) if is_ours else None

    def _signature(self, content: str) -> str:
        return urlsafe_b64encode(hmac.digest(self._key, content.encode(), "sha256")).rstrip(b"=").decode()


def put_cookie(answer: web.StreamResponse, name: str, text: str, max_age_s: int, *, secure: bool) -> None:
    """Set a cookie that scripts cannot read and forms of other sites do not send."""
    answer.set_cookie(name, text, max_age=max_age_s, path="/", httponly=True, samesite="Lax", secure=secure)


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
        self._signer, self._secure = CookieSigner(key, "session"), secure
        self._ended = Newest[str, None](MOST_IDS)
        #: With this prefix no other host of the same domain can set the cookie (RFC 6265bis, 4.1.3.2).
        self.cookie: Final = "__Host-punctual" if secure else "punctual-session"

    def begin(self, answer: web.StreamResponse, name: str, groups: tuple[str, ...], provider: str) -> None:
        """Begin a session with a new random ID, and put its cookie into a response."""
        id_, now_s = secrets.token_urlsafe(18), _now_s()
        session = Session(id=id_, name=name, groups=groups, provider=provider, began_s=now_s, used_s=now_s)
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
        put_cookie(answer, self.cookie, "", 0, secure=self._secure)
        if session is None:
            return ""
        self.forget(session.id)
        return session.id

    def forget(self, id_: str) -> None:
        """Store that a session has ended, here or on another worker."""
        if len(id_) <= _LONGEST_ID:
            self._ended[id_] = None

    def _write(self, answer: web.StreamResponse, session: Session) -> None:
        left_s = max(1, session.began_s + LONGEST_S - _now_s())
        put_cookie(answer, self.cookie, self._signer.sign(session), left_s, secure=self._secure)


def _now_s() -> int:
    return Clock.wall_ms() // 1_000
