"""Password hashes (scrypt)."""

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from typing import Final, Self

import msgspec

#: Five rounds with 16 MiB each: the recommendation of OWASP's Password Storage Cheat Sheet if memory is short.
_LN, _R, _P = 14, 8, 5
#: A hash in the access file may use at most this much of a worker: 16 rounds with 64 MiB each.
_MOST_LN, _MOST_R, _MOST_P = 16, 8, 16
_BYTES: Final = 32
_FORM: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{16,64})\$([A-Za-z0-9+/]{43})"
)


class Hash(msgspec.Struct, frozen=True, kw_only=True):
    """The hash of a password: `$scrypt$ln=14,r=8,p=5$<salt>$<hash>`, base64 without padding."""

    ln: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a hash. Raises ValueError with a sentence that does not contain the hash."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError("the hash was not made by `punctual password` ($scrypt$ln=…)")
        ln, r, p = (int(part) for part in match.groups()[:3])
        if not (1 <= ln <= _MOST_LN and 1 <= r <= _MOST_R and 1 <= p <= _MOST_P):
            most = f"ln={_MOST_LN},r={_MOST_R},p={_MOST_P}"
            raise ValueError(f"the hash is too expensive for a worker. The maximum is {most}")
        return cls(ln=ln, r=r, p=p, salt=_bytes(match[4]), digest=_bytes(match[5]))

    @classmethod
    def of(cls, password: str, *, ln: int = _LN, r: int = _R, p: int = _P) -> Self:
        """Return the hash of a new password, with a new salt."""
        salt = os.urandom(16)
        return cls(ln=ln, r=r, p=p, salt=salt, digest=_scrypt(password, salt, ln, r, p))

    def fits(self, password: str) -> bool:
        """Return whether this is the password. It takes a good part of a second of CPU, without Python's lock."""
        return hmac.compare_digest(_scrypt(password, self.salt, self.ln, self.r, self.p), self.digest)

    def __str__(self) -> str:
        return f"$scrypt$ln={self.ln},r={self.r},p={self.p}${_text(self.salt)}${_text(self.digest)}"


def _scrypt(password: str, salt: bytes, ln: int, r: int, p: int) -> bytes:
    memory = 128 * r * ((1 << ln) + p + 2) + (1 << 20)
    secret = password.encode(errors="surrogateescape")
    return hashlib.scrypt(secret, salt=salt, n=1 << ln, r=r, p=p, maxmem=memory, dklen=_BYTES)


def _text(raw: bytes) -> str:
    return b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return b64decode(text + "=" * (-len(text) % 4))
