"""Asks a broker whether it is ready: one Metadata request over a plain socket.

An open port is not enough: Kafka accepts connections before its controller lets it serve. A broker appears in its own
metadata only after its controller has admitted it, and then topics can be created on it. The request is written by
hand because callers have no event loop, and need only four fields of the response.
"""

import socket
import struct

from app.dev.broker.ports import HOST

_METADATA, _VERSION, _CORRELATION = 3, 2, 1  # version 2 is the first with the cluster id
_TIMEOUT_S = 2.0


def answers(port: int, node_id: int, cluster_id: str) -> bool:
    """Return whether this node of this cluster serves clients on the port; False on any error."""
    try:
        cluster, nodes = _metadata(port)
    except (OSError, struct.error):
        return False
    return cluster == cluster_id and node_id in nodes


def _metadata(port: int) -> tuple[str | None, set[int]]:
    body = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, -1) + struct.pack(">i", 0)  # no client id, no topics
    with socket.create_connection((HOST, port), _TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return _parse(stream.read(size))


def _parse(answer: bytes) -> tuple[str | None, set[int]]:
    _correlation, count = struct.unpack_from(">ii", answer)
    at, nodes = 8, set()
    for _ in range(count):
        (node,) = struct.unpack_from(">i", answer, at)
        nodes.add(node)
        _host, at = _string(answer, at + 4)
        _rack, at = _string(answer, at + 4)  # after the port
    cluster, _ = _string(answer, at)
    return cluster, nodes


def _string(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = struct.unpack_from(">h", data, at)
    start = at + 2
    return (None, start) if size < 0 else (data[start : start + size].decode(), start + size)
