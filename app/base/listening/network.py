"""Which addresses count as one client."""

import ipaddress
from typing import Final

#: The owner of one IPv6 address has a network of them.
_NETWORK: Final = 64


def network(address: str | None) -> str:
    """Return the name under which an address is counted: itself, or its /64 for IPv6."""
    text = (address or "").partition("%")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    if found.version == 4 or found.ipv4_mapped is not None:  # noqa: PLR2004 - IPv4
        return str(found)
    return str(ipaddress.ip_network((int(found), _NETWORK), strict=False))
