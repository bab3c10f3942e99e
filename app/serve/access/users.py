"""The file of users: names, roles and password hashes; it is read again when it changes."""

import os
import re
from collections.abc import Collection
from functools import partial
from typing import Final

import msgspec

from app.base.watched_file import Line, WatchedFile
from app.serve.access.caller import ROLES, Caller, Role, namespaces_of
from app.serve.access.password import Hash

_NAME: Final = re.compile(r"[^\s:#]{1,64}")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file."""

    name: str
    role: Role
    hash: Hash
    namespaces: tuple[str, ...] | None = None

    @property
    def caller(self) -> Caller:
        """The user of a request with this name and password."""
        return Caller(self.name, self.role, namespaces=self.namespaces)


class UsersFile:
    """Lines of `name:role:hash`, or `name:role:hash:namespace,…`; a line that begins with `#` is a comment.

    If the file cannot be read any more, the last content stays valid.
    """

    def __init__(self, path: str, namespaces: Collection[str] = ()) -> None:
        """Read the file at `path`, which may name these namespaces; with an empty path there are no users.

        Raises ValueError, which describes the error and its line, but never contains a hash.
        """
        parse = partial(_users, namespaces) if path else _nobody
        self._file = WatchedFile("DELAY_WEB_USERS_FILE", path, parse, "users may sign in")

    def __bool__(self) -> bool:
        return bool(self._file)

    def of(self, name: str, now_s: float) -> User | None:
        """Return a user, or None; checks once a second, by the loop's clock, whether the file has changed."""
        return self._file.content(now_s).get(name)

    def nobody(self) -> Hash:
        """Return a hash that no password matches, and that takes as long as those of the users."""
        most = max((user.hash for user in self._file.last.values()), key=lambda one: (one.ln, one.r * one.p))
        return msgspec.structs.replace(most, salt=os.urandom(len(most.salt)), digest=os.urandom(len(most.digest)))


def _nobody(_: list[Line]) -> dict[str, User]:
    return {}


def _users(namespaces: Collection[str], lines: list[Line]) -> dict[str, User]:
    users: dict[str, User] = {}
    for number, line in lines:
        user = _user(number, line, namespaces)
        if user.name in users:
            raise ValueError(f"line {number} names {user.name} a second time")
        users[user.name] = user
    if not users:
        raise ValueError("it has no user. Make a line with `punctual password NAME ROLE`")
    return users


def _user(number: int, line: str, namespaces: Collection[str]) -> User:
    parts = line.split(":")
    if len(parts) not in (3, 4):
        raise ValueError(f"line {number} is not of the form name:role:hash or name:role:hash:namespace,…")
    name, role, text, *bound = parts
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise ValueError(f"line {number}: a name must have 1 to 64 characters without space, ':' or '#'")
    if role not in ROLES:
        raise ValueError(f"line {number}: the role must be one of {', '.join(ROLES)}, not {role!r:.32}")
    try:
        within = namespaces_of(bound[0], ",", namespaces) if bound else None
        return User(name=name, role=role, hash=Hash.parse(text), namespaces=within)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
