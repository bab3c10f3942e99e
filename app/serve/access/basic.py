"""Names and passwords with each request (RFC 7617), checked against the users file; guessing is slowed down."""

import asyncio
import hmac
import os
from base64 import b64decode
from binascii import Error as Base64Error
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from app.base.listening.limits import network
from app.base.places import NoPlace, Places
from app.serve.access.roles import Asker
from app.serve.access.users import User, UsersFile

if TYPE_CHECKING:
    from app.serve.access.password import Hash

#: So long a password that was right is not hashed again, and so many are known.
_KNOWN_S: Final = 300.0
_MOST_KNOWN: Final = 1_000
#: One hash takes a core for a while; more requests than this do not wait for it.
_MOST_WAITING: Final = 50
_LONGEST: Final = 1_024
_PRINTABLE_FROM: Final = 32
#: The first failures of an address cost nothing; each later one doubles the wait.
_FREE_FAILURES: Final = 5
_LONGEST_WAIT_S: Final = 60.0
#: An address is forgotten after this time without a failure, and at most so many addresses are remembered.
_FAILURES_KEPT_S: Final = 900.0
_MOST_ADDRESSES: Final = 10_000
CHALLENGE: Final = 'Basic realm="Punctual", charset="UTF-8"'


class TooManyFailures(Exception):
    """Whoever asks has to wait first, `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        """Say how long."""
        super().__init__(f"too many failed logins; wait {wait_s:.0f} s")
        self.wait_s = wait_s


class Basic:
    """Finds out whose name and password come with a request."""

    def __init__(self, users: UsersFile) -> None:
        """Know the users of a file."""
        self._users, self._failures = users, LoginFailures()
        self._key = os.urandom(32)
        self._known: OrderedDict[bytes, tuple[Hash, float]] = OrderedDict()
        self._turn, self._waiting = asyncio.Lock(), Places(_MOST_WAITING)

    async def asker(self, credentials: str, address: str | None) -> Asker | None:
        """Return who shows these credentials (base64 of `name:password`); None if they are wrong.

        Unknown names take as long as known ones. Raises TooManyFailures.
        """
        now_s = asyncio.get_running_loop().time()
        name, password = _read(credentials)
        user = self._users.of(name, now_s)
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(errors="surrogateescape"), sha256)
        if user is not None and self._is_known(digest, user, now_s):
            return user.asker
        if not await self._fits(user, password, address, now_s):
            return None
        assert user is not None, "nobody has the password of nobody"
        self._known[digest] = (user.hash, now_s + _KNOWN_S)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return user.asker

    def user(self, name: str) -> User | None:
        """Return what the file says of a user now."""
        return self._users.of(name, asyncio.get_running_loop().time())

    def _is_known(self, digest: bytes, user: User, now_s: float) -> bool:
        hash_, until_s = self._known.get(digest, (None, 0.0))
        return hash_ == user.hash and now_s < until_s

    async def _fits(self, user: User | None, password: str, address: str | None, now_s: float) -> bool:
        """Whether a password is the user's, one at a time, and not on the event loop."""
        self._refuse(self._failures.wait_s(address, now_s))
        try:
            with self._waiting.one(network(address)):
                async with self._turn:
                    now_s = asyncio.get_running_loop().time()
                    self._refuse(self._failures.wait_s(address, now_s))  # others may have failed from there meanwhile
                    hash_ = self._users.nobody() if user is None else user.hash
                    fits = await asyncio.to_thread(hash_.fits, password)
        except NoPlace:
            raise TooManyFailures(1.0) from None
        if fits and user is not None:
            return True
        self._failures.failed(address, now_s)
        return False

    @staticmethod
    def _refuse(wait_s: float) -> None:
        if wait_s > 0:
            raise TooManyFailures(max(1.0, wait_s))


class LoginFailures:
    """Counts failed logins by address, in bounded memory, and returns how long an address has to wait.

    A success changes nothing: else whoever has one password could go on to guess another.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._known: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, address: str | None, now_s: float) -> float:
        """Return for how long an address is not listened to."""
        count, last_s = self._known.get(network(address), (0, now_s))
        if count < _FREE_FAILURES or now_s - last_s > _FAILURES_KEPT_S:
            return 0.0
        return max(0.0, last_s + min(_LONGEST_WAIT_S, float(1 << min(count - _FREE_FAILURES, 6))) - now_s)

    def failed(self, address: str | None, now_s: float) -> None:
        """Count a failure."""
        key = network(address)
        count, last_s = self._known.pop(key, (0, now_s))
        self._known[key] = (1 if now_s - last_s > _FAILURES_KEPT_S else count + 1, now_s)
        while len(self._known) > _MOST_ADDRESSES:
            self._known.popitem(last=False)


def _read(credentials: str) -> tuple[str, str]:
    """Return the name and the password; empty ones for what is none, which nobody has."""
    if len(credentials) > _LONGEST:
        return "", ""
    try:
        name, _, password = b64decode(credentials, validate=True).decode().partition(":")
    except (Base64Error, ValueError):
        return "", ""
    if any(ord(one) < _PRINTABLE_FROM for one in name + password):  # RFC 7617 has none; a hash ignores a last NUL
        return "", ""
    return name, password
