"""Addresses that a worker may connect to: a sender must not reach internal networks through a worker (SSRF).

The networks are from IANA's registries of special-purpose addresses, with clouds' metadata at public addresses added.
Python's `is_global` is not used, because its result changes between patch releases.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

#: Networks that are not globally routable.
RESERVED: Sequence[IPv4Network] = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host, RFC 791
            "10.0.0.0/8",
            "100.64.0.0/10",  # carriers' own, RFC 6598; 100.100.100.200 has a cloud's metadata
            "127.0.0.0/8",
            "168.63.129.16/32",  # a cloud's agent, at a public address
            "169.254.0.0/16",  # link-local; 169.254.169.254 has metadata
            "172.16.0.0/12",
            "192.0.0.0/24",  # IETF protocols; 192.0.0.192 has metadata
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
#: The only globally routable part of the IPv6 address space (IANA), except for RESERVED_6.
GLOBAL_6 = IPv6Network("2000::/3")
RESERVED_6: Sequence[IPv6Network] = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocols: Teredo and others that lead elsewhere
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: contains an IPv4 address, and is obsolete
            "3fff::/20",  # documentation
        ),
    )
)
#: IPv6 networks whose addresses contain an IPv4 address in their last 32 bits: mapped, and NAT64 (RFC 6052).
EMBEDDING: Sequence[IPv6Network] = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))

#: Networks that may be reached through a name in the settings: an organisation's own networks and this machine.
PRIVATE: Sequence[IPv4Network | IPv6Network] = (
    *map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")),
    *map(IPv6Network, ("::1/128", "fc00::/7")),
)
#: Metadata services of clouds inside PRIVATE, which are refused all the same.
METADATA: Sequence[Address] = (IPv4Address("100.100.100.200"), IPv6Address("fd00:ec2::254"))


def is_global(address: Address) -> bool:
    """Return whether an address is globally routable."""
    plain = _plain(address)
    if isinstance(plain, IPv4Address):
        return not any(plain in network for network in RESERVED)
    return plain in GLOBAL_6 and not any(plain in network for network in RESERVED_6)


def is_near(address: Address) -> bool:
    """Return whether a host that the settings name may have this address: a global or a private one."""
    plain = _plain(address)
    if plain in METADATA:
        return False
    return is_global(plain) or any(plain in network for network in PRIVATE)


def _plain(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address, or the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in EMBEDDING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
