"""The file of tokens (TOML): callers and their permissions; it is read again when it changes."""

import math
import tomllib
from datetime import datetime
from typing import Annotated, Final

import msgspec

from app.base.watched_file import Line, WatchedFile
from app.gateway.callers.caller import Caller
from app.gateway.token import DIGEST, NAME, digest_of, is_token, same
from punctual.contract.rate import rate_of

SETTING: Final = "DELAY_GATEWAY_TOKENS_FILE"
#: The maximum number of tokens, because each request compares its token with all.
_MOST: Final = 10_000
_DEFAULT_RATE: Final = 100.0
_DEFAULT_BYTES: Final = 1 << 20


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    expires: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: list[_Token]
    destinations: list[str]
    namespace: str = ""
    rate: Annotated[float, msgspec.Meta(gt=0)] = _DEFAULT_RATE
    burst: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_message_bytes: Annotated[int, msgspec.Meta(ge=1)] = _DEFAULT_BYTES


class TokenEntry(msgspec.Struct, frozen=True):
    """A token's digest, its caller, and its expiry (epoch ms), None for no expiry."""

    digest: bytes
    caller: Caller
    expires_ms: int | None


class TokensFile:
    """A table for each caller, with the digests of its tokens: several can be valid, so that a token can be replaced.

    If the file cannot be read any more, the last content stays valid.
    """

    def __init__(self, path: str) -> None:
        """Read the file at `path`; with an empty path there are no tokens.

        Raises ValueError, which describes the error and its table, but never contains a token.
        """
        self._file = WatchedFile(SETTING, path, _entries if path else _none, "tokens are known")

    def __bool__(self) -> bool:
        return bool(self._file)

    def caller(self, token: str, now_s: float, now_ms: int) -> Caller | None:
        """Return the caller of a token; None if it is unknown or has expired.

        It checks once a second, by the loop's clock (`now_s`), whether the file has changed.
        """
        digest, found = digest_of(token), None
        for entry in self._file.content(now_s):  # all entries, so that the time does not depend on the match
            if same(entry.digest, digest):
                found = entry
        if found is None or (found.expires_ms is not None and now_ms >= found.expires_ms):
            return None
        return found.caller

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of the tokens."""
        return frozenset(entry.caller.namespace for entry in self._file.last) - {""}


def _none(_: list[Line]) -> list[TokenEntry]:
    return []


def _entries(lines: list[Line]) -> list[TokenEntry]:
    tables = _tables(lines)
    entries = [entry for name, table in tables.items() for entry in _of(name, table)]
    if not entries:
        raise ValueError("it has no token. Make one with `punctual token NAME`")
    if len(entries) > _MOST:
        raise ValueError(f"it has {len(entries)} tokens. The maximum is {_MOST}")
    digests = [entry.digest for entry in entries]
    if len(set(digests)) < len(digests):
        twice = next(entry.caller.name for place, entry in enumerate(entries) if entry.digest in digests[:place])
        raise ValueError(f"[{twice}]: one of its tokens is given twice")
    return entries


def _tables(lines: list[Line]) -> dict[str, _Table]:
    text = [""] * (lines[-1][0] if lines else 0)
    for number, line in lines:
        text[number - 1] = line
    try:
        read = tomllib.loads("\n".join(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from None
    tables = {}
    for name, table in read.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"[{name[:64]}]: use 1 to 64 letters, digits, hyphens or underscores as the name")
        try:
            tables[name] = msgspec.convert(table, _Table)
        except msgspec.ValidationError as error:
            raise ValueError(f"[{name}]: {error}") from None
    return tables


def _of(name: str, table: _Table) -> list[TokenEntry]:
    try:
        rate_of(table.rate)
    except ValueError as error:
        raise ValueError(f"[{name}]: {error}") from None
    caller = Caller(
        name=name,
        namespace=table.namespace,
        destinations=tuple(table.destinations),
        rate=table.rate,
        burst=table.burst or max(1, math.ceil(table.rate)),
        max_message_bytes=table.max_message_bytes,
    )
    return [_entry(name, caller, token) for token in table.tokens]


def _entry(name: str, caller: Caller, token: _Token) -> TokenEntry:
    if is_token(token.sha256):
        raise ValueError(f"[{name}]: the file contains a token instead of its sha256. Make a new token")
    if not DIGEST.fullmatch(token.sha256):
        raise ValueError(f"[{name}]: a sha256 has 64 digits from 0 to f. Make one with `punctual token {name}`")
    expires_ms = None if token.expires is None else int(token.expires.timestamp() * 1000)
    return TokenEntry(bytes.fromhex(token.sha256), caller, expires_ms)
