"""The access file (TOML): people, programs and groups with their permissions; it is read again when it changes."""

import asyncio
import logging
import os
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from app.base.clock import Clock
from app.base.watched_file import Line, WatchedFile
from app.serve.access import former
from app.serve.access.caller import Caller, Grant, combined
from app.serve.access.entries import EVERYBODY, FindLine, Provider, User, validated
from app.serve.access.password import Hash
from app.serve.access.token import digest_of, same

log = logging.getLogger(__name__)


class Access(msgspec.Struct, frozen=True, dict=True):
    """The contents of an access file."""

    users: Mapping[str, User] = {}
    #: The roles by the provider's groups.
    groups: Mapping[str, Grant] = {}
    provider: Provider | None = None

    def __len__(self) -> int:
        """Return the number of users and groups."""
        return len(self.users) + len(self.groups)

    @cached_property
    def has_passwords(self) -> bool:
        """Whether a user has a password."""
        return any(user.hash is not None for user in self.users.values())

    @cached_property
    def has_tokens(self) -> bool:
        """Whether a user has a token."""
        return any(user.tokens for user in self.users.values())

    def decoy(self) -> Hash:
        """Return a hash that no password matches, and that takes as long as those of the users."""
        hashes = [user.hash for user in self.users.values() if user.hash is not None]
        costliest = max(hashes, key=lambda hash_: (hash_.ln, hash_.r * hash_.p))
        return msgspec.structs.replace(
            costliest, salt=os.urandom(len(costliest.salt)), digest=os.urandom(len(costliest.digest))
        )

    def of_token(self, token: str) -> Caller | None:
        """Return the caller of a token; None if it is unknown or has expired."""
        digest, match = digest_of(token), None
        for user in self.users.values():  # no early end: the time must not depend on which token matches
            for candidate in user.tokens:
                if same(candidate.digest, digest):
                    match = user, candidate
        if match is None or match[1].expires_ms <= Clock.wall_ms():
            return None
        return match[0].caller

    def known_groups(self, values: Iterable[str]) -> tuple[str, ...]:
        """Return the values of a claim that are groups of this file."""
        return tuple(sorted({value for value in values if value in self.groups}))

    def grant(self, values: Iterable[str]) -> Grant | None:
        """Return the highest role of some groups, with the limits of all groups that give it; None for no role."""
        grants = [self.groups[value] for value in {*values, EVERYBODY} if value in self.groups]
        return combined(grants) if grants else None


class AccessFile:
    """The access file of a setting; if it cannot be read any more, the last content stays valid."""

    def __init__(self, setting: str, path: str, namespaces: Collection[str]) -> None:
        """Read the file at `path`, which may name these namespaces; with an empty path it allows nobody.

        Raises ValueError, which describes the mistake and its line, but never contains a hash or a token.
        """

        def parse(lines: list[Line]) -> Access:
            if not path:
                return Access()
            tables, find_line, form = former.tables_of(lines)
            if form:
                self.form = form
            mistakes, access = access_of(tables, find_line, None if form == former.TOKENS else namespaces)
            if mistakes:
                raise ValueError(mistakes[0])
            return access

        self.setting, self.path, self.form = setting, path, ""
        self._file = WatchedFile(setting, path, parse, "users and groups")
        if self.form:
            log.warning(
                "%s=%s has the form of an earlier version (%s), which the next version will not read. Print the new "
                "form, with the same hashes: punctual access convert %s",
                *(setting, path, self.form, path),
            )

    def __bool__(self) -> bool:
        """Return whether there is a file."""
        return bool(self._file)

    def now(self) -> Access:
        """Return the content; checks once a second whether the file has changed."""
        return self._file.content(asyncio.get_running_loop().time())

    @property
    def last(self) -> Access:
        """The content as it was last read."""
        return self._file.last


def access_of(
    tables: Mapping[str, Any], find_line: FindLine, namespaces: Collection[str] | None
) -> tuple[list[str], Access]:
    """Return the mistakes in tables, and their content without these; None for `namespaces` allows all."""
    mistakes, users, groups, provider = validated(tables, find_line, namespaces)
    return mistakes, Access(users, groups, provider)
