"""Cookies that a worker signs, so that any worker of the installation accepts them, and ids that count no more."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections import OrderedDict
from typing import Final, TypeVar

import msgspec
from aiohttp import web

_LONGEST: Final = 4_096
#: Whoever has a cookie can try out secrets against it: each try is to cost as much as here, once at the start.
_LN, _R, _P = 14, 8, 1
_MOST_IDS: Final = 20_000
#: An id is short; nothing longer is kept.
_LONGEST_ID: Final = 64

Kind = TypeVar("Kind", bound=msgspec.Struct)


def signing_key(secret: str, installation: str) -> bytes:
    """Return the key of an installation, made of the secret that its workers share."""
    salt = f"punctual sessions 1\0{installation}".encode()
    return hashlib.scrypt(secret.encode(), salt=salt, n=1 << _LN, r=_R, p=_P, maxmem=1 << 26, dklen=32)


class CookieSigner:
    """Signs values of one kind, which nobody without the key can make or change, and reads them; they are no secret."""

    def __init__(self, key: bytes, purpose: str) -> None:
        """Use a key for one purpose: what is signed for another is not valid."""
        self._key = hmac.digest(key, purpose.encode(), "sha256")

    def sign(self, value: msgspec.Struct) -> str:
        """Return a value as signed text."""
        content = urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=")
        return f"{content.decode()}.{self._signature(content)}"

    def read(self, text: str, kind: type[Kind]) -> Kind | None:
        """Return the value of signed text; None if this key has not signed it."""
        if not text.isascii() or len(text) > _LONGEST:
            return None
        content, dot, signature = text.partition(".")
        if not dot or not hmac.compare_digest(self._signature(content.encode()), signature):
            return None
        try:
            return msgspec.json.decode(urlsafe_b64decode(content + "=" * (-len(content) % 4)), type=kind)
        except (Base64Error, msgspec.MsgspecError, ValueError):
            return None

    def _signature(self, content: bytes) -> str:
        return urlsafe_b64encode(hmac.digest(self._key, content, "sha256")).rstrip(b"=").decode()


class RevokedIds:
    """Ids of sessions that have ended and of sign-ins that are done, each kept for some seconds: at most the newest."""

    def __init__(self, kept_s: float) -> None:
        """Keep each for `kept_s`, after which it has expired anyway."""
        self._kept_s = kept_s
        self._ids: OrderedDict[str, float] = OrderedDict()

    def add(self, id_: str, now_s: float) -> bool:
        """Keep an id; return whether it is new."""
        if len(id_) > _LONGEST_ID:
            return False
        new = id_ not in self._ids
        self._ids.setdefault(id_, now_s)
        while self._ids and (len(self._ids) > _MOST_IDS or next(iter(self._ids.values())) + self._kept_s < now_s):
            self._ids.popitem(last=False)
        return new

    def __contains__(self, id_: str) -> bool:
        return id_ in self._ids


def put_cookie(answer: web.StreamResponse, name: str, text: str, kept_s: int, *, secure: bool) -> None:
    """Give a browser a cookie that no script and no other site's form gets hold of."""
    answer.set_cookie(name, text, max_age=kept_s, path="/", httponly=True, samesite="Lax", secure=secure)
