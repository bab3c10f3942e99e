"""The tables of an access file, checked: each mistake is a sentence with its line, and says what to do."""

import hmac
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from app.base.clock import Clock
from app.serve.access.caller import ROLES, Caller, Grant, combined
from app.serve.access.password import Hash
from app.serve.access.token import DIGEST, digest_of, is_token
from app.settings.values import provider_address
from punctual.contract.rate import rate_of

#: The names of users.
NAME: Final = re.compile(r"[^\s:#]{1,64}")
#: The group of every user of the provider.
EVERYBODY: Final = "*"
_NEVER_MS: Final = 1 << 62
#: The maximum number of tokens, because each request with a token compares it with all.
_MOST_TOKENS: Final = 10_000
#: The defaults for users with tokens, which are programs.
_TOKEN_RATE: Final = 100.0
_TOKEN_BYTES: Final = 1 << 20
_TOP: Final = ("users", "groups", "provider")

Table = Mapping[str, Any]
#: Returns the number of the line of a table, or of a key in it; None if it is not found.
FindLine = Callable[[tuple[str, ...], str], int | None]
Kind = TypeVar("Kind", bound=msgspec.Struct)
Limits = TypeVar("Limits", bound="_Limits")


class Token(NamedTuple):
    """The digest of a token, and when it expires (epoch ms)."""

    digest: bytes
    expires_ms: int = _NEVER_MS

    @property
    def expires(self) -> bool:
        """Whether the token has an end."""
        return self.expires_ms != _NEVER_MS


class User(msgspec.Struct, frozen=True):
    """A person or a program."""

    caller: Caller
    hash: Hash | None = None
    tokens: tuple[Token, ...] = ()


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The OpenID Connect provider; `claim` has the groups of its users. Without a secret the client is public."""

    issuer: str = ""
    client_id: str = ""
    client_secret_file: str = ""
    claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "profile", "email")


class _Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    role: str = ""
    namespaces: tuple[str, ...] | None = None
    destinations: tuple[str, ...] | None = None
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None
    burst: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_message_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    expires: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _User(_Limits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    password: str = ""
    tokens: list[_Token] = []


class Access(msgspec.Struct, frozen=True, dict=True):
    """The contents of an access file."""

    users: Mapping[str, User] = {}
    #: The roles by the provider's groups.
    groups: Mapping[str, Grant] = {}
    provider: Provider | None = None

    def __len__(self) -> int:
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
                if hmac.compare_digest(candidate.digest, digest):
                    match = user, candidate
        if match is None or match[1].expires_ms <= Clock.wall_ms():
            return None
        return match[0].caller

    def caller(self, name: str, values: Iterable[str], session: str = "", until_s: int | None = None) -> Caller | None:
        """Return a user of the provider with the grant of some groups; None for no role."""
        grant = self.grant(values)
        return None if grant is None else Caller.of(name, grant, session, until_s)

    def grant(self, values: Iterable[str]) -> Grant | None:
        """Return the highest role of some groups, with the limits of all groups that give it; None for no role."""
        grants = [self.groups[value] for value in {*values, EVERYBODY} if value in self.groups]
        return combined(grants) if grants else None


def access_of(tables: Table, find_line: FindLine, namespaces: Collection[str] | None) -> tuple[list[str], Access]:
    """Return the mistakes in tables, and their content without these; None for `namespaces` allows all."""
    check = _Check(find_line, namespaces)
    access = check.access(tables)
    return check.mistakes, access


class _Check:
    """Notes mistakes; sentences never contain a password, a hash or a token."""

    def __init__(self, find_line: FindLine, namespaces: Collection[str] | None) -> None:
        self._find_line, self._namespaces = find_line, namespaces
        self.mistakes = list[str]()
        self._tokens = set[bytes]()

    def access(self, tables: Table) -> Access:
        for name in tables.keys() - set(_TOP):
            self._note((name,), "", "is not a table of this file: use [users.NAME], [groups.NAME] and [provider]")
        users = {
            path[1]: self._user(path, entry, grant) for path, entry, grant in self._entries(tables, "users", _User)
        }
        groups = {path[1]: grant for path, _, grant in self._entries(tables, "groups", _Limits)}
        provider = self._provider(tables["provider"]) if "provider" in tables else None
        if not (users or groups or provider or self.mistakes):
            self.mistakes.append(
                "it has no user. Print the lines of one with `punctual password NAME ROLE` or `punctual token NAME`"
            )
        if groups and "provider" not in tables:
            self._note(("groups",), "", "groups need the table [provider], whose users they are")
        if provider is not None and not groups:
            self._note(("provider",), "", f'without groups, no user has a role. Add [groups."{EVERYBODY}"] for all')
        if len(self._tokens) > _MOST_TOKENS:
            self.mistakes.append(f"it has {len(self._tokens)} tokens. The maximum is {_MOST_TOKENS}")
        return Access(users, groups, provider)

    def _entries(self, tables: Table, top: str, kind: type[Limits]) -> Iterator[tuple[tuple[str, str], Limits, Grant]]:
        """Yield the path, the table and the grant of each entry without mistakes in its form."""
        entries = tables.get(top, {})
        for name, table in entries.items() if isinstance(entries, dict) else [("", entries)]:
            path = (top, name)
            if not isinstance(table, dict):
                self._note(path, "", f"write a table for each, as in [{top}.NAME]")
            elif top == "users" and not (NAME.fullmatch(name) and name.isprintable()):
                self._note(path, "", "a name must have 1 to 64 characters without space, ':' or '#'")
            elif (entry := self._converted(path, table, kind)) is not None and (grant := self._grant(path, entry)):
                yield path, entry, grant

    def _user(self, path: tuple[str, str], entry: _User, grant: Grant) -> User:
        tokens = [token for row in entry.tokens if (token := self._token(path, row)) is not None]
        hash_, name = None, path[1]
        if entry.password:
            try:
                hash_ = Hash.parse(entry.password)
            except ValueError as error:
                self._note(path, "password", str(error))
        elif not entry.tokens:
            ways = f"add a password (`punctual password {name} ROLE`) or a token (`punctual token {name}`)"
            self._note(path, "", ways)
        return User(Caller.of(name, grant), hash_, tuple(tokens))

    def _grant(self, path: tuple[str, ...], entry: _Limits) -> Grant | None:
        is_program = bool(getattr(entry, "tokens", ()))
        if entry.role not in ROLES:
            self._note(path, "role", f"the role must be one of {', '.join(ROLES)}, not {entry.role!r:.32}")
            return None
        rate = entry.rate or (_TOKEN_RATE if is_program else 0.0)
        try:
            rate_of(rate or 1.0)
        except ValueError as error:
            self._note(path, "rate", str(error))
        if entry.role == ROLES[-1] and entry.destinations is not None:
            sentence = "an admin acts on all destinations. Use the role operator, or leave destinations out"
            self._note(path, "destinations", sentence)
        namespaces = entry.namespaces or () if self._namespaces is None else self._namespaces
        for name in entry.namespaces or ():
            if name not in namespaces:
                hint = f"DELAY_NAMESPACES has {', '.join(sorted(namespaces)) or 'none'}"
                self._note(path, "namespaces", f"there is no namespace {name[:64]!r}; {hint}")
        if entry.namespaces == ():
            self._note(path, "namespaces", "the list is empty. Leave it out for the whole installation")
        return Grant(
            entry.role,
            namespaces=entry.namespaces and tuple(dict.fromkeys(entry.namespaces)),
            destinations=entry.destinations,
            rate=rate,
            burst=(entry.burst or max(1, math.ceil(rate))) if rate else 0,
            max_message_bytes=entry.max_message_bytes or (_TOKEN_BYTES if is_program else 0),
        )

    def _token(self, path: tuple[str, ...], entry: _Token) -> Token | None:
        if is_token(entry.sha256):
            sentence = "the file contains a token instead of its sha256. Make a new token, because this one can be read"
        elif not DIGEST.fullmatch(entry.sha256):
            sentence = f"a sha256 has 64 digits from 0 to f. Make one with `punctual token {path[-1]}`"
        elif (digest := bytes.fromhex(entry.sha256)) in self._tokens:
            sentence = "one of its tokens is given twice. Make a token for each user"
        else:
            self._tokens.add(digest)
            return Token(digest, _NEVER_MS if entry.expires is None else int(entry.expires.timestamp() * 1_000))
        self._note(path, "tokens", sentence)
        return None

    def _provider(self, table: Any) -> Provider | None:
        path = ("provider",)
        provider = self._converted(path, table, Provider)
        if provider is None:
            return None
        for key, example in (("issuer", "https://login.example.com/realms/main"), ("client_id", "punctual")):
            if not getattr(provider, key):
                self._note(path, key, f'it has no {key}. Add it, such as {key} = "{example}"')
                return None
        try:
            provider_address(provider.issuer)
        except ValueError as error:
            self._note(path, "issuer", f"issuer {provider.issuer!r}: {error}")
        secret = provider.client_secret_file
        if secret and not os.access(secret, os.R_OK):
            self._note(path, "client_secret_file", f"there is no file {secret!r}, or it cannot be read")
        if not provider.scopes:
            self._note(path, "scopes", 'scopes must be a list of texts, such as ["openid", "profile", "email"]')
        return provider

    def _converted(self, path: tuple[str, ...], table: Any, kind: type[Kind]) -> Kind | None:
        try:
            return msgspec.convert(table, kind)
        except msgspec.ValidationError as error:
            match = re.search(r"\$\.(\w+)|field `(\w+)`", str(error))
            key = (match[1] or match[2]) if match else ""
            keys = ", ".join(kind.__struct_fields__)
            hint = f". The keys are {keys}" if "unknown field" in str(error) else ""
            self._note(path, key, f"{key}: {_plain(error)}{hint}" if key else _plain(error))
        return None

    def _note(self, path: tuple[str, ...], key: str, sentence: str) -> None:
        line = self._find_line(path, key)
        place = f"[{'.'.join(path)}]"[:80]
        self.mistakes.append(f"{'' if line is None else f'line {line}: '}{place}: {sentence}")


def _plain(error: Exception) -> str:
    text = str(error).partition(" - at ")[0].replace("`", "").replace(" | null", "")
    return f"{text[:1].lower()}{text[1:]}"
