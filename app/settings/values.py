"""Parsers of settings: each takes a variable's text, and raises ValueError with the valid values."""

import ipaddress
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

_MOST_PROCESSES: Final = 100
MOST_PORT: Final = 65_535
#: The minimum length of a secret, and the minimum of different characters, so that it cannot be guessed.
_SECRET_LENGTH, _SECRET_KINDS = 16, 8
_CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def whole(low: int, high: int = 1 << 40) -> Callable[[str], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
            msg = f"it must be a whole number from {low} to {high}"
            raise ValueError(msg)
        return int(text)

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts these words."""

    def parse(text: str) -> str:
        if text not in choices:
            msg = f"it must be one of {', '.join(choices)}"
            raise ValueError(msg)
        return text

    return parse


def topic_name(text: str) -> str:
    """Return `text` if it is valid in topic names."""
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,200}", text):
        msg = "it must have 1 to 200 letters, digits, dots, underscores or hyphens, as in topic names"
        raise ValueError(msg)
    return text


def words(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated list, without empty ones: `a, b,`."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def servers(text: str) -> str:
    """Return a list of servers in the form of Kafka's clients: names or addresses, each with an optional port."""
    listed = words(text)
    for server in listed:
        match = re.fullmatch(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+(?:%\w+)?\])(?::([0-9]{1,5}))?", server)
        if match is None or not 0 < int(match[1] or 1) <= MOST_PORT:
            msg = f"{server!r} is not a server. Use host:port, several separated by commas: a:9092,b:9092"
            raise ValueError(msg)
    if text and not listed:
        raise ValueError("it has no server")
    return ",".join(listed)


def web_address(text: str) -> str:
    """Return an http or https address, which must end with its path."""
    if text and not re.fullmatch(r"https?://[^\s/?#@\\]+(/[^\s?#\\]*)?", text):
        msg = "it must be an address such as https://punctual.example.com"
        raise ValueError(msg)
    return text


def provider_address(text: str) -> str:
    """Return an https address, or one of this machine: over http, an attacker could sign in as any user."""
    if web_address(text) and not is_private(text):
        msg = (
            "it must use https, except on this machine: over http, an attacker on the network could sign in as any user"
        )
        raise ValueError(msg)
    return text


def is_private(url: str) -> bool:
    """Return whether an address is safe from others on the network: https, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme != "http" or not host:
        return parts.scheme == "https" and bool(host)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def secret(text: str) -> str:
    """Return a secret that cannot be guessed, or an empty one."""
    if text and (len(text) < _SECRET_LENGTH or len(set(text)) < _SECRET_KINDS):
        msg = (
            f"it is too easy to guess. Use at least {_SECRET_LENGTH} characters, {_SECRET_KINDS} of them different. "
            "`openssl rand -base64 32` prints a good secret"
        )
        raise ValueError(msg)
    return text


def urls(text: str) -> tuple[str, ...]:
    """Return a list of address patterns; each but `*` has a scheme, http or https."""
    listed = words(text)
    for pattern in listed:
        if pattern != "*" and "://" not in pattern:
            msg = f"{pattern!r} has no scheme. Write 'https://{pattern}' instead"
            raise ValueError(msg)
        if pattern != "*" and not pattern.startswith(("https://", "http://")):
            msg = f"{pattern!r} is not a pattern of https:// or http:// addresses"
            raise ValueError(msg)
    return listed


def each(parse: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    """Return a parser of pairs whose values `parse` reads."""

    def parse_each(text: str) -> dict[str, Any]:
        parsed = {}
        for name, value in pairs(text).items():
            try:
                parsed[name] = parse(value)
            except ValueError as error:
                msg = f"{name}: {error}"
                raise ValueError(msg) from error
        return parsed

    return parse_each


def pairs(text: str) -> dict[str, str]:
    """Return values by name: `name=value,other=value`."""
    result = {}
    for item in words(text):
        name, equals, value = item.partition("=")
        if not equals or not name or not value:
            msg = f"{item!r} is not of the form name=value"
            raise ValueError(msg)
        if name in result:
            msg = f"{name} is given twice"
            raise ValueError(msg)
        result[name] = value
    return result


def patterns(text: str) -> dict[str, tuple[str, ...]]:
    """Return patterns by input, `*` for all: `orders.*,reminders` or `input:pattern|pattern,other-input:pattern`."""
    allowed: dict[str, tuple[str, ...]] = {}
    for item in words(text):
        source, colon, names = item.rpartition(":")
        allowed[source if colon else "*"] = allowed.get(source if colon else "*", ()) + tuple(
            map(str.strip, names.split("|"))
        )
    return allowed


def url_patterns(text: str) -> dict[str, tuple[str, ...]]:
    """Return patterns of addresses by input, `*` for all: `https://a.example/*,input:https://b.example|https://*`."""
    allowed: dict[str, tuple[str, ...]] = {}
    for item in words(text):
        source, colon, rest = item.partition(":")
        source, listed = (source, rest) if colon and not rest.startswith("//") else ("*", item)
        allowed[source] = allowed.get(source, ()) + tuple(
            url for part in listed.split("|") for url in urls(part.strip())
        )
    return allowed


def lower_words(text: str) -> tuple[str, ...]:
    """Return the items of a list, in lower case."""
    return words(text.lower())


def processes(text: str) -> int:
    """Return a number of processes; `auto` is the number of usable cores."""
    return cores() if text == "auto" else whole(1, _MOST_PROCESSES)(text)


def cores(quota: Path = _CPU_QUOTA) -> int:
    """Return how many cores this process may use: by its affinity, or by its control group's quota if that is less."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        limit, period = quota.read_text("ascii").split()
        return min(usable, max(1, math.ceil(int(limit) / int(period))))
    except (OSError, ValueError):  # not Linux, or `max`: no limit
        return usable
