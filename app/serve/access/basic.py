"""Checks names and passwords in requests (RFC 7617) against the access file, and slows down guessing."""

import asyncio
import hmac
import math
import os
from base64 import b64decode
from binascii import Error as Base64Error
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from app.base.listening.limits import network
from app.base.newest import Newest
from app.base.places import NoPlace, Places
from app.serve.access.access_file import AccessFile
from app.serve.access.entries import User
from app.serve.web.problem import Problem

if TYPE_CHECKING:
    from app.serve.access.password import Hash

#: How long a correct password is not hashed again, and the maximum number of such passwords.
_KNOWN_S: Final = 300.0
_MOST_KNOWN: Final = 1_000
#: The maximum requests that wait for a hash, because each hash uses a core for a while.
_MOST_WAITING: Final = 50
_LONGEST: Final = 1_024
_PRINTABLE_FROM: Final = 32
#: The number of failures of an address without a wait; each later failure doubles the wait.
_FREE_FAILURES: Final = 5
_LONGEST_WAIT_S: Final = 60.0
#: How long an address is remembered after its last failure, and the maximum number of addresses.
_FAILURES_KEPT_S: Final = 900.0
_MOST_ADDRESSES: Final = 10_000
CHALLENGE: Final = 'Basic realm="Punctual", charset="UTF-8"'


class TooManyFailures(Problem):
    """The client must wait before the next login."""

    def __init__(self, wait_s: float) -> None:
        sentence = f"too many failed logins; wait {wait_s:.0f} s"
        super().__init__("rate", sentence, headers={"Retry-After": str(math.ceil(wait_s))})


class Basic:
    """Identifies users by the name and password in a request."""

    def __init__(self, file: AccessFile) -> None:
        self._file, self._failures = file, LoginFailures()
        self._key = os.urandom(32)
        #: Until when each digest of a name, a correct password and its hash counts (seconds of the event loop).
        self._verified = Newest[bytes, float](_MOST_KNOWN)
        self._lock, self._waiting = asyncio.Lock(), Places(_MOST_WAITING)

    async def user(self, credentials: str, address: str | None) -> User | None:
        """Return the user of credentials (base64 of `name:password`); None if they are wrong.

        Unknown names take as long as known names. Raises TooManyFailures.
        """
        now_s = asyncio.get_running_loop().time()
        name, password = _read(credentials)
        access = self._file.now()
        if not access.has_passwords:
            return None
        user = access.users.get(name)
        hash_ = None if user is None else user.hash
        text = f"{name}\0{password}\0{hash_}"
        digest = hmac.digest(self._key, text.encode(errors="surrogateescape"), sha256)
        if now_s < self._verified.get(digest, 0.0):
            return user
        if not await self._fits(hash_, access.decoy(), password, address, now_s):
            return None
        self._verified[digest] = now_s + _KNOWN_S
        return user

    async def _fits(
        self, hash_: "Hash | None", decoy: "Hash", password: str, address: str | None, now_s: float
    ) -> bool:
        """Return whether a password has a hash; one hash at a time, in a thread, because it takes long."""
        self._failures.check(address, now_s)
        try:
            with self._waiting.one(network(address)):
                async with self._lock:
                    now_s = asyncio.get_running_loop().time()
                    self._failures.check(address, now_s)  # more logins from there may have failed
                    fits = await asyncio.to_thread((hash_ or decoy).fits, password)
        except NoPlace:
            raise TooManyFailures(1.0) from None
        if fits and hash_ is not None:
            return True
        self._failures.failed(address, now_s)
        return False


class LoginFailures:
    """Counts failed logins by address, in bounded memory, and returns how long an address has to wait.

    A success does not reset the count; otherwise a user with one password could guess another.
    """

    def __init__(self) -> None:
        self._known = Newest[str, tuple[int, float]](_MOST_ADDRESSES)

    def wait_s(self, address: str | None, now_s: float) -> float:
        """Return how many seconds an address still has to wait, 0 if it need not."""
        count, last_s = self._known.get(network(address), (0, now_s))
        if count < _FREE_FAILURES or now_s - last_s > _FAILURES_KEPT_S:
            return 0.0
        return max(0.0, last_s + min(_LONGEST_WAIT_S, float(1 << min(count - _FREE_FAILURES, 6))) - now_s)

    def check(self, address: str | None, now_s: float) -> None:
        """Raise TooManyFailures if an address still has to wait."""
        wait_s = self.wait_s(address, now_s)
        if wait_s > 0:
            raise TooManyFailures(max(1.0, wait_s))

    def failed(self, address: str | None, now_s: float) -> None:
        """Count a failed login of an address."""
        key = network(address)
        count, last_s = self._known.get(key, (0, now_s))
        self._known[key] = (1 if now_s - last_s > _FAILURES_KEPT_S else count + 1, now_s)


def _read(credentials: str) -> tuple[str, str]:
    """Return the name and the password; empty texts, which no user has, for invalid credentials."""
    if len(credentials) > _LONGEST:
        return "", ""
    try:
        name, _, password = b64decode(credentials, validate=True).decode().partition(":")
    except (Base64Error, ValueError):
        return "", ""
    # RFC 7617 forbids control characters, and a hash ignores a last NUL.
    if any(ord(char) < _PRINTABLE_FROM for char in name + password):
        return "", ""
    return name, password
