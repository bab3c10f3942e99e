"""The limits of one client, what counts as one client, and how a server refuses and counts the rest."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiohttp import StreamReader, web

#: Connections that the system has accepted and the server has not: beyond, clients try again after a second.
BACKLOG: Final = 1_024
#: A request's head must be complete within this time of its first byte.
HEAD_S: Final = 10.0
#: A body must be complete within this time after its head, plus one second per BODY_BYTES_PER_S bytes.
BODY_S, BODY_BYTES_PER_S = 15.0, 1_024
#: A client that reads no byte of its answer for this long is cut off.
ANSWER_S: Final = 60.0
#: Connections without a request are kept for this long: longer than load balancers usually keep theirs (a minute).
_IDLE_S: Final = 75.0
#: The rest of a refused body is read and dropped for this long, so that the client gets to see the answer.
_LINGER_S: Final = 2.0
#: The pause between two reads of bytes that are dropped: event loops read at most 256 KB at once, which are 10 MB in
#: _LINGER_S, and a hundredth of the loop's time for a dozen clients.
DROP_S: Final = 0.05
#: The connection stays open if a refused body has at most this much left.
REST_BYTES: Final = 64 << 10
#: A connection's body is read ahead by at most twice this.
_READ_AHEAD: Final = 64 << 10
#: A body is read ahead by at most this many chunks: parsing them takes half a millisecond.
_CHUNKS: Final = 256
#: Heads are parsed in pieces of this size.
PIECE_BYTES: Final = 4 << 10
#: After this many pauses of its reading, a body is large.
QUICK_READS: Final = 4
#: Headers of one request.
_HEADERS: Final = 64
#: The maximum number of parts of JSON, because many small parts take 25 times their size.
JSON_PARTS: Final = 100_000
_SLICE: Final = 64 << 10


def server_options(header_bytes: int) -> dict[str, Any]:
    """Return the options of aiohttp's server, with the maximum bytes of one header."""
    return {
        "keepalive_timeout": _IDLE_S,
        "lingering_time": _LINGER_S,
        "max_headers": _HEADERS,
        "max_field_size": header_bytes,
        "max_line_size": 8_190,
        "read_bufsize": _READ_AHEAD,
        # Packed bodies are refused, and a refused body must not be unpacked only to be dropped: one mebibyte may
        # become a gibibyte, which stops everything else on the event loop for seconds.
        "auto_decompress": False,
    }


def bound_chunks(body: StreamReader) -> None:
    """Let a body be read ahead by at most _CHUNKS, because aiohttp's own maximum takes milliseconds to parse."""
    body._high_water_chunks, body._low_water_chunks = _CHUNKS, _CHUNKS // 2  # noqa: SLF001 - there is no option


def has_too_many_parts(raw: bytes) -> bool:
    """Return whether JSON has too many parts, judged by its commas and brackets wherever they are."""
    count = 0
    for begin in range(0, len(raw), _SLICE):  # counting has a cost too, so it ends early
        count += sum(raw.count(part, begin, begin + _SLICE) for part in (b",", b"[", b"{"))
        if count > JSON_PARTS:
            return True
    return False


#: A client with one IPv6 address usually has a whole network.
_NETWORK: Final = 64


def network(address: str | None) -> str:
    """Return the name under which an address is counted: the address, or its /64 network for IPv6."""
    text = (address or "").partition("%")[0]
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return text
    if parsed.version == 4 or parsed.ipv4_mapped is not None:  # noqa: PLR2004 - IPv4
        return str(parsed)
    return str(ipaddress.ip_network((int(parsed), _NETWORK), strict=False))


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """Why a request is refused: a problem's type (docs/reference/problems.md), its status, and a sentence."""

    kind: str
    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpRefusals(Protocol):
    """How a server answers and counts refusals."""

    def error(self, refusal: HttpRefusal) -> Exception:
        """Return the exception that a middleware raises to answer a request with a refusal."""

    def answer(self, refusal: HttpRefusal) -> web.Response:
        """Return the answer to bytes that are not an HTTP request, and count the refusal."""

    def cut_off(self, reason: str) -> None:
        """Count a connection that is ended: a TLS `handshake`, `head`, `body` or `answer` is too slow; too `many`.

        `address` means too many of one address.
        """
