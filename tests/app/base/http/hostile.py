"""URLs that must not be reached, by their defect; no pattern names any of their hosts.

`ADDRESSES` has the addresses of host names, as an attacker's resolver would answer.
"""

from ipaddress import ip_address

ANY = "0.0.0.0"  # noqa: S104 - no test listens on it
#: One address at least of each network that is not the world's.
RESERVED = (
    ANY,
    "0.255.255.255",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
)
RESERVED_6 = (
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12:3456:789a::1",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
)


def _spellings(address: str) -> list[str]:
    """Return ways to write an IPv4 address that resolvers of some system read as it."""
    a, b, c, d = map(int, address.split("."))
    number = int(ip_address(address))
    wide = "".join(chr(ord(char) + 0xFEE0) if char.isdigit() else char for char in address)
    return [
        str(number),
        f"0x{number:x}",
        f"0X{number:08X}",
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a:03d}.{b}.{c}.0x{d:x}" if a > 77 else f"0x{a:x}.{b}.{c}.{d}",
        f"{address}.",
        wide,
        address.replace(".", "\u3002"),
        address.replace(".", "%2e"),
        "".join(f"%{ord(char):02x}" for char in address),
        f"[::ffff:{address}]",
        f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[64:ff9b::{address}]",
    ]


LITERALS = [
    *(f"https://{address}/" for address in RESERVED),
    *(f"https://[{address}]/" for address in RESERVED_6),
    *(
        f"https://{spelled}/"
        for address in ("127.0.0.1", "169.254.169.254", "10.0.0.1")
        for spelled in _spellings(address)
    ),
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "https://0x/",
    "https://0.0/",
    "https://[::1%25lo]/",
    "https://[fe80::1%25eth0]/",
    "https://[::ffff:7f00:0001]:443/",
    "https://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/",
]
#: Texts that are not hosts: some parser would find another host in them.
CONFUSED = [
    "",
    "https:",
    "https://",
    "https:///etc/passwd",
    "https:/example.com/",
    "//example.com/",
    "example.com",
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://example.com:70/_",
    "dict://example.com:11211/",
    "javascript:alert(1)",
    "data:text/plain,x",
    "ws://example.com/",
    "unix:///var/run/docker.sock",
    "http://example.com/",  # no pattern names it without TLS
    "http://127.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "https://user@example.com/",
    "https://user:password@example.com/",
    "https://:@example.com/",
    "https://@example.com/",
    "https://example.com@127.0.0.1/",
    "https://example.com%40127.0.0.1/",
    "https://127.0.0.1\\@example.com/",
    "https://example.com\\@127.0.0.1/",
    "https://example.com\\.evil.example/",
    "https://example.com#@127.0.0.1:22/\r\nX: y",
    "https://exa mple.com/",
    "https://example.com /",
    " https://example.com/",
    "https://example.com/ HTTP/1.1",
    "https://example.com/\r\nHost: 127.0.0.1",
    "https://example.com/\nX-Injected: yes",
    "https://example.com/a\tb",
    "https://example.com/\x00",
    "https://example.com\x00.evil.example/",
    "https://example.com\x7f/",
    "https://exam\u200bple.com/",
    "https://[example.com]/",
    "https://[::1/",
    "https://::1/",
    "https://[::g]/",
    "https://[127.0.0.1]/",
    "https://[v1.x]/",
    "https://example..com/",
    "https://.example.com/",
    "https://-example.com/",
    "https://example-.com/",
    "https://example.com../",
    "https://" + "a" * 64 + ".com/",
    "https://" + "a." * 127 + "com/",
    "https://256.256.256.256/",
    "https://1.2.3.4.5/",
    "https://1.2.3.0x100/",
    "https://09.0.0.1/",
    "https://4294967296/",
    "https://1.2.3.4x5/"[:-3] + "08/",
    "https://example.0x7f/",
    "https://example.1/",
    "https://example.com/" + "x" * 2_048,
    "https://example.com/" + "\u00e9" * 1_000,
    "https://ex\u2025ample.com/",
    "https://example.com\uff0f.evil.example\u2028/",
]
PORTS = [
    f"https://example.com:{port}/"
    for port in (0, 1, 21, 22, 23, 25, 80, 111, 389, 2375, 2379, 3306, 5432, 6379, 8080, 8443, 9092, 9200, 11211, 65535)
] + ["https://example.com:65536/", "https://example.com:-1/", "https://example.com:x/", "https://example.com:22 /"]
#: Names of a machine or of a network.
NEAR = [
    f"https://{name}/"
    for name in (
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "localhost.localdomain",
        "intranet",
        "metadata",
        "kubernetes",
        "vault",
        "router.local",
        "printer.LOCAL",
        "metadata.google.internal",
        "metadata.google.internal.",
        "ip-10-0-0-1.ec2.internal",
        "db.internal",
        "nas.home.arpa",
        "host.lan",
        "wiki.corp",
        "nas.home",
        "x.private",
        "wiki.intranet",
        "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
    )
]
#: Names that only a resolver can tell of: each resolves to what no connection may be made to, alone or among others.
ADDRESSES: dict[str, tuple[str, ...]] = {
    **{f"v4-{place}.example.com": (address,) for place, address in enumerate(RESERVED)},
    **{f"v6-{place}.example.com": (address,) for place, address in enumerate(RESERVED_6)},
    "first.example.com": ("10.0.0.1", "93.184.216.34"),
    "last.example.com": ("93.184.216.34", "2606:2800:220:1::1", "::ffff:169.254.169.254"),
    "nip.example.com": ("93.184.216.34", "127.0.0.1"),
}
RESOLVED = [f"https://{name}/" for name in ADDRESSES]
#: Refused as they stand, and all.
WRITTEN = list(dict.fromkeys([*LITERALS, *CONFUSED, *PORTS, *NEAR]))
ALL = [*WRITTEN, *RESOLVED]
