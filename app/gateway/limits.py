"""How much a client may take of a gateway: what is beyond is refused, or cut off."""

from typing import Any, Final

from app.gateway.problem import Problem

#: Connections that the system has made and the gateway has not taken yet: beyond, clients try again after a second.
BACKLOG: Final = 1_024
#: A request's head: lines, and bytes of each. 64 of 4 KiB are 256 KiB a connection at most.
_HEADERS, _HEADER_BYTES, _LINE_BYTES = 64, 4_096, 8_190
#: A head must be there so soon after its first byte.
HEAD_S: Final = 10.0
#: A body must be there so soon after its head, and for each second beyond so many bytes of it.
BODY_S, BODY_BYTES_PER_S = 15.0, 1_024
#: An answer must be taken, from the moment that its request is there.
ANSWER_S: Final = 60.0
#: Connections without a request are kept for so long: longer than load balancers keep theirs, a minute as a rule.
_IDLE_S: Final = 75.0
#: What comes of a body that nobody wants is read for so long, so that the client gets to see why.
_LINGER_S: Final = 2.0
#: A connection's body is read ahead by twice that.
_READ_AHEAD: Final = 64 << 10
#: Bodies of all requests at once, as far as they are held in memory.
BODIES_BYTES: Final = 128 << 20
#: What a body that does not say how long it is counts as.
STREAM_BYTES: Final = 1 << 20
#: JSON of many small parts takes 25 times its size: so many parts there may be.
JSON_PARTS: Final = 100_000

#: Options of aiohttp's server.
SERVER: Final[dict[str, Any]] = {
    "keepalive_timeout": _IDLE_S,
    "lingering_time": _LINGER_S,
    "max_headers": _HEADERS,
    "max_field_size": _HEADER_BYTES,
    "max_line_size": _LINE_BYTES,
    "read_bufsize": _READ_AHEAD,
    # Bodies that are packed are refused, and what is refused must not be unpacked to be passed over: a mebibyte may
    # become a gibibyte, which keeps all others waiting for seconds.
    "auto_decompress": False,
}


def check_json(raw: bytes) -> None:
    """Refuse JSON of more parts than are unpacked here, whatever is in its texts. Raises Problem."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > JSON_PARTS:
        sentence = (
            f"The body has more than {JSON_PARTS:,} commas and brackets. Send it in parts; a message may carry BINARY, "
            "in base64."
        )
        raise Problem("body-too-large", sentence)
