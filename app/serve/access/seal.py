"""Seals what a browser keeps for us, so that any worker of the installation knows it for its own."""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Final, TypeVar

import msgspec

_LONGEST: Final = 4_096
#: Whoever has a cookie can try out secrets against it: each try is to cost as much as here, once at the start.
_LN, _R, _P = 14, 8, 1

Kind = TypeVar("Kind", bound=msgspec.Struct)


def key_of(secret: str, installation: str) -> bytes:
    """Return the key of an installation, made of the secret that its workers share."""
    salt = f"punctual sessions 1\0{installation}".encode()
    return hashlib.scrypt(secret.encode(), salt=salt, n=1 << _LN, r=_R, p=_P, maxmem=1 << 26, dklen=32)


class Seal:
    """Writes and reads values of one kind, which nobody without the key can make or change; they are no secret."""

    def __init__(self, key: bytes, purpose: str) -> None:
        """Use a key for one purpose: what is sealed for another is not valid."""
        self._key = hmac.digest(key, purpose.encode(), "sha256")

    def close(self, value: msgspec.Struct) -> str:
        """Return a value as sealed text."""
        content = urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=")
        return f"{content.decode()}.{self._mark(content)}"

    def open(self, text: str, kind: type[Kind]) -> Kind | None:
        """Return the value of sealed text; None if it is not ours."""
        if not text.isascii() or len(text) > _LONGEST:
            return None
        content, dot, mark = text.partition(".")
        if not dot or not hmac.compare_digest(self._mark(content.encode()), mark):
            return None
        try:
            return msgspec.json.decode(urlsafe_b64decode(content + "=" * (-len(content) % 4)), type=kind)
        except (Base64Error, msgspec.MsgspecError, ValueError):
            return None

    def _mark(self, content: bytes) -> str:
        return urlsafe_b64encode(hmac.digest(self._key, content, "sha256")).rstrip(b"=").decode()
