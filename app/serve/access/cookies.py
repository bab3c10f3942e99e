"""Cookies that a worker signs, so that all workers of the installation accept them, and revoked IDs."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections import OrderedDict
from functools import lru_cache
from typing import Final, TypeVar

import msgspec
from aiohttp import web

_LONGEST: Final = 4_096
#: An owner of a cookie can try secrets against it: each try costs as much as this, which a worker pays once at start.
_LN, _R, _P = 14, 8, 1
_MOST_IDS: Final = 20_000
#: The maximum characters of an ID that is stored.
_LONGEST_ID: Final = 64

Kind = TypeVar("Kind", bound=msgspec.Struct)


@lru_cache(maxsize=2)
def signing_key(secret: str, installation: str) -> bytes:
    """Return the signing key of an installation, derived from its workers' shared secret."""
    salt = f"punctual sessions 1\0{installation}".encode()
    return hashlib.scrypt(secret.encode(), salt=salt, n=1 << _LN, r=_R, p=_P, maxmem=1 << 26, dklen=32)


class CookieSigner:
    """Signs and reads values of one kind, which only holders of the key can make or change, but all can read."""

    def __init__(self, key: bytes, purpose: str) -> None:
        """Use `key` for one purpose: values signed for another purpose are not valid."""
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
    """IDs of ended sessions and of completed sign-ins, each kept for some seconds, up to a maximum number."""

    def __init__(self, keep_s: float) -> None:
        """Keep each ID for `keep_s` seconds, after which its session has expired anyway."""
        self._keep_s = keep_s
        self._ids: OrderedDict[str, float] = OrderedDict()

    def add(self, id_: str, now_s: float) -> bool:
        """Store an ID at a time in seconds, forget old ones, and return whether it is new; false for an overlong ID."""
        if len(id_) > _LONGEST_ID:
            return False
        new = id_ not in self._ids
        self._ids.setdefault(id_, now_s)
        while self._ids and (len(self._ids) > _MOST_IDS or next(iter(self._ids.values())) + self._keep_s < now_s):
            self._ids.popitem(last=False)
        return new

    def __contains__(self, id_: str) -> bool:
        return id_ in self._ids


def put_cookie(answer: web.StreamResponse, name: str, text: str, max_age_s: int, *, secure: bool) -> None:
    """Set a cookie that scripts cannot read and forms of other sites do not send."""
    answer.set_cookie(name, text, max_age=max_age_s, path="/", httponly=True, samesite="Lax", secure=secure)
