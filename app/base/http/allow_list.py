"""The URLs that the settings allow: patterns, and hosts that are allowed only by name."""

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Self

from app.base.http.addresses import is_global
from app.base.http.target import DEFAULT_PORTS, UrlTarget, target_of

#: Parts of a path that some servers take for a dot, a slash or `..`, once or twice decoded, and others for a name.
DOUBTFUL = re.compile(r"%(?:25)*(?:2e|2f|5c)|/\.\.?(?:[;/]|$)", re.IGNORECASE)
#: Top-level names that belong to a machine or a local network (RFC 6761, 6762, 8375, and ICANN's for private use).
LOCAL = ("localhost", "local", "internal", "home.arpa", "localdomain", "lan", "intranet", "corp", "home", "private")
_ANY = "*"


class Allowed(NamedTuple):
    """A URL that the settings allow; `named` says that a pattern names its host, which may then be a private host."""

    target: UrlTarget
    named: bool


class Pattern(NamedTuple):
    """The parts of a pattern. It names its host if the host has no wildcard, except for the port."""

    scheme: str
    authority: str
    path: str
    host: str
    port: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a pattern: `https://hooks.example.com/*`, `https://*.example.com`, `http://10.0.0.7:*`."""
        scheme, _, rest = text.partition("://")
        authority, slash, path = rest.partition("/")
        authority = authority.lower().removesuffix(f":{DEFAULT_PORTS.get(scheme, 0)}")
        host, port = authority, ""
        if (match := re.fullmatch(r"(.*?\]|[^\[\]:]*):([0-9]+|[0-9]*\*)", authority)) is not None:
            host, port = match.groups()
        elif authority.endswith("*"):  # as in http://127.0.0.1*
            host, port = authority[:-1], "*"
        return cls(scheme, authority, slash + path, host.removeprefix("[").removesuffix("]"), port)

    def admits(self, target: UrlTarget) -> bool:
        """Return whether the pattern admits a URL; the scheme and the host never match a part of the path.

        The path is compared as it is sent, and an ambiguous path is not admitted.
        """
        if self.scheme != target.url.scheme or (self.path and not self._is_below(target)):
            return False
        authority = self.authority.replace("[", "[[]")  # a bracket begins an IPv6 address, not a set of characters
        with_port = f"{target.authority.removesuffix(f':{target.port}')}:{target.port}"
        return any(fnmatch.fnmatchcase(one, authority) for one in (target.authority, with_port))

    def _is_below(self, target: UrlTarget) -> bool:
        return fnmatch.fnmatchcase(target.url.raw_path_qs, self.path) and DOUBTFUL.search(target.url.raw_path) is None

    def names(self, target: UrlTarget) -> bool:
        """Return whether the pattern names the host of a URL that it admits."""
        return self.host == target.host

    def opens(self, target: UrlTarget) -> bool:
        """Return whether the pattern allows the port of a URL that it admits: its own, or any port of a named host."""
        return self.port == str(target.port) or ("*" in self.port and self.names(target))


class AllowList:
    """Patterns of URLs: `*` stands for every URL of the `schemes`."""

    def __init__(self, patterns: Iterable[str], schemes: tuple[str, ...] = ("https",)) -> None:
        """Allow the URLs that the patterns admit."""
        each = (text if text != _ANY else f"{scheme}://*" for text in patterns for scheme in schemes)
        self._patterns = tuple(map(Pattern.of, dict.fromkeys(each)))

    def allowed(self, text: str) -> Allowed:
        """Return the target of an allowed URL, and whether a pattern names its host.

        Raises ValueError, with a clause that says why the URL is not allowed; NotListed if no pattern admits it.
        """
        target = target_of(text)
        admitting = [pattern for pattern in self._patterns if pattern.admits(target)]
        if not admitting:
            raise NotListed("is not on the list of allowed URLs")
        named = any(pattern.names(target) for pattern in admitting)
        if not named:
            _assure_public(target)
        if target.port != DEFAULT_PORTS[target.url.scheme] and not any(one.opens(target) for one in admitting):
            raise NotListed(f"has port {target.port}, which no pattern allows")
        return Allowed(target, named)

    def reaches(self, origin: str) -> bool:
        """Return whether a pattern admits some URL of an origin, `https://host:port`."""
        target = target_of(origin)
        return any(pattern._replace(path="").admits(target) for pattern in self._patterns)


@lru_cache(maxsize=100)
def allow_list(patterns: tuple[str, ...], schemes: tuple[str, ...] = ("https",)) -> AllowList:
    """Return the cached list with these `patterns`."""
    return AllowList(patterns, schemes)


class NotListed(ValueError):
    """No pattern admits a URL."""


def _assure_public(target: UrlTarget) -> None:
    """Raise ValueError for a host whose name or address shows that it is not public."""
    if target.address is not None:
        if not is_global(target.address):
            raise NotListed("has a private address that no pattern names")
    elif "." not in target.host or any(f".{target.host}".endswith(f".{name}") for name in LOCAL):
        raise NotListed("has a host in a private network that no pattern names")
