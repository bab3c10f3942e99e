"""The target of a URL: its parts as they will be used, in canonical form."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

import yarl

from app.base.http.addresses import Address

#: The maximum length; longer URLs are not parsed, because a mebibyte takes seconds.
LONGEST = 2_048
DEFAULT_PORTS = {"https": 443, "http": 80}
#: Characters that must be encoded: some parsers drop them, some take a backslash for a slash.
_UNCLEAN = re.compile(r"[\x00-\x20\x7f\\]")
#: An empty user, and brackets around a name: the parsed URL no longer shows them.
_USER, _BRACKETS = re.compile(r"[^/?#]*//[^/?#]*@"), re.compile(r"[^/?#]*//[^/?#]*[\[\]]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
#: A host whose last label looks like this is an IPv4 address, or invalid (WHATWG URL, "ends in a number").
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_LONGEST_NAME, _PARTS, _OCTET = 253, 4, 256


class UrlTarget(NamedTuple):
    """A URL's parts in canonical form, so that the checked address is the one used."""

    url: yarl.URL
    host: str
    port: int
    #: The address, if the host is not a name.
    address: Address | None

    @property
    def authority(self) -> str:
        """Host and port, without the scheme's default port."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.url.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: the part of a URL that may be shown."""
        return f"{self.url.scheme}://{self.authority}"


def target_of(text: str) -> UrlTarget:
    """Return the target of a URL.

    Raises ValueError, with a clause about the problem.
    """
    _assure_short(text)
    if _UNCLEAN.search(text):
        raise ValueError("has spaces, control characters or backslashes; encode them")
    try:
        url = yarl.URL(text)
        host, port = url.raw_host or "", url.port
        alone = url.raw_user is None and url.raw_password is None and _USER.match(text) is None
    except (ValueError, IndexError) as error:  # IndexError: wrong brackets or percent signs (yarl/_parse.py)
        raise ValueError("is not a URL") from error
    if url.scheme not in DEFAULT_PORTS or not host:
        raise ValueError("is not an https:// address with a host")
    if not alone:
        raise ValueError("contains a user or a password. Sign messages with a secret instead")
    if not port:
        raise ValueError("has an invalid port")
    host, address = _host(host)
    if _BRACKETS.match(text) and not isinstance(address, IPv6Address):
        raise ValueError("has a host that is neither a name nor an address")
    url = url.with_host(host).with_port(None if port == DEFAULT_PORTS[url.scheme] else port).with_fragment(None)
    _assure_short(str(url))  # encoding can make it longer
    return UrlTarget(url, host, port, address)


def _assure_short(text: str) -> None:
    if len(text) > LONGEST:
        raise ValueError(f"has {len(text):,} characters. The maximum is {LONGEST:,}")


def _host(text: str) -> tuple[str, Address | None]:
    """Return a host as it is resolved, and its address if it is not a name."""
    text = text.removesuffix(".")
    labels = text.split(".")
    try:
        if ":" in text:
            six = IPv6Address(text)
            if six.scope_id is not None:
                raise ValueError("has a link-local address, which is valid on one machine only")
            return six.compressed, six
        if _NUMBER.fullmatch(labels[-1]):
            four = IPv4Address(_number(labels))
            return str(four), four
    except AddressValueError as error:
        raise ValueError("has a host that is neither a name nor an address") from error
    if len(text) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("has a host that is neither a name nor an address")
    return text, None


def _number(parts: list[str]) -> int:
    """Return the IPv4 address in these parts, each decimal, octal or hexadecimal; the last part fills the rest.

    Raises AddressValueError if the parts are not an address.
    """
    numbers = [_digits(part) for part in parts]
    *first, last = numbers
    if len(parts) > _PARTS or any(number >= _OCTET for number in first) or last >= _OCTET ** (_PARTS + 1 - len(parts)):
        raise AddressValueError(".".join(parts))
    return last + sum(number << 8 * (3 - place) for place, number in enumerate(first))


def _digits(part: str) -> int:
    lower = part.lower()
    base, digits = (16, lower[2:]) if lower[:2] == "0x" else (8, lower[1:]) if lower[:1] == "0" else (10, lower)
    try:
        return int(digits, base) if digits else 0 if lower else _none(part)
    except ValueError as error:
        raise AddressValueError(part) from error


def _none(part: str) -> int:
    raise AddressValueError(part)
