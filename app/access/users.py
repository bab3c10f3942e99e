"""The file of users: who they are, in which role, and hashes of their passwords; read again when it changes."""

import logging
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from app.access.password import Hash
from app.access.roles import ROLES, Role

_NAME: Final = re.compile(r"[^\s:#]{1,64}")
_EVERY_S: Final = 1.0

log = logging.getLogger(__name__)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file."""

    name: str
    role: Role
    hash: Hash


class UsersFile:
    """Lines of `name:role:hash`; those that begin with `#` are comments.

    Of a file that cannot be read any more, what was read last holds.
    """

    def __init__(self, path: str) -> None:
        """Read the file at `path`; an empty path is no file.

        Raises ValueError, which says what is wrong and names a line, never a hash.
        """
        self._path = Path(path) if path else None
        self._seen, self._users = self._state(), self._read()
        self._checked_s = float("-inf")

    def __bool__(self) -> bool:
        return self._path is not None

    def of(self, name: str, now_s: float) -> User | None:
        """Return a user; looks, once a second by the loop's clock, whether the file has changed."""
        if self._path is not None and now_s - self._checked_s >= _EVERY_S:
            self._checked_s = now_s
            self._look()
        return self._users.get(name)

    def nobody(self) -> Hash:
        """Return the hash of no password, which takes as long as the users' do."""
        most = max((user.hash for user in self._users.values()), key=lambda one: (one.ln, one.r * one.p))
        return msgspec.structs.replace(most, salt=os.urandom(len(most.salt)), digest=os.urandom(len(most.digest)))

    def _look(self) -> None:
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._users = self._read()
            log.info("DELAY_WEB_USERS_FILE has changed: %d users may sign in from now on", len(self._users))
        except ValueError as error:
            log.error("DELAY_WEB_USERS_FILE has changed, and is not used: %s. What it had still holds.", error)  # noqa: TRY400 - the sentence says it

    def _state(self) -> tuple[int, ...]:
        """Return what shows that the file is another one."""
        try:
            stat = self._path.stat() if self._path is not None else None
        except OSError:
            return ()
        return () if stat is None else (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def _read(self) -> dict[str, User]:
        if self._path is None:
            return {}
        try:
            text = self._path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(f"it cannot be read: {why}") from error
        users: dict[str, User] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                user = _user(number, line.strip())
                if user.name in users:
                    raise ValueError(f"line {number} names {user.name} a second time")
                users[user.name] = user
        if not users:
            raise ValueError("it has no user: `python -m app.access.password NAME ROLE` makes a line")
        return users


def _user(number: int, line: str) -> User:
    parts = line.split(":")
    if len(parts) != 3:  # noqa: PLR2004 - name, role and hash
        raise ValueError(f"line {number} is not of the form name:role:hash")
    name, role, text = parts
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise ValueError(f"line {number}: a name has 1 to 64 characters, none of them a space, ':' or '#'")
    if role not in ROLES:
        raise ValueError(f"line {number}: a role is one of {', '.join(ROLES)}, not {role!r:.32}")
    try:
        return User(name=name, role=role, hash=Hash.parse(text))
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
