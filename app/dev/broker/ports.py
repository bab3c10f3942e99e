"""TCP ports of the loopback interface."""

import secrets
import socket
from pathlib import Path

from app.dev.broker.errors import PortTakenError

HOST = "127.0.0.1"
#: The range of ports for outgoing connections (on Linux; other systems have a higher one).
_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LINUX = (32_768, 60_999)
#: Lower ports belong to well-known servers, including Kafka and Punctual.
_FIRST, _LAST = 10_000, 65_535
_TRIES = 100
#: The minimum number of ports: with fewer, most may be in use.
_ENOUGH = 5_000


def server_ports() -> range:
    """Return ports that the kernel does not give to outgoing connections; if there are too few, all ports."""
    try:
        low, high = map(int, _OF_CONNECTIONS.read_text("ascii").split())
    except (OSError, ValueError):
        low, high = _LINUX
    ports = max(range(_FIRST, low), range(max(_FIRST, high + 1), _LAST + 1), key=len)
    return ports if len(ports) >= _ENOUGH else range(_FIRST, _LAST + 1)


def free_port(room: int = 1) -> int:
    """Return a port that is free, together with the `room` - 1 ports after it; other processes may still take it.

    Outgoing connections get such a port only if the kernel has no others.
    """
    ports = server_ports()
    for _ in range(_TRIES):
        first = ports[secrets.randbelow(len(ports) - room + 1)]
        if all(map(is_free, range(first, first + room))):
            return first
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Return whether a port is free: without a listener or a connection."""
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def require_free(port: int) -> None:
    """Check that a server could listen on this port.

    Raises:
        PortTakenError: another process listens there.
    """
    with socket.socket() as probe:
        # As Java's own listener does: lingering connections of an earlier run are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port_taken(port)) from error


def port_taken(port: int) -> str:
    """Return the message about a port that is in use."""
    return (
        f"Port {port} on {HOST} is in use by another process. Stop that process, or choose another port with "
        f"KAFKA_PORT. If the process is a Kafka broker, use it with KAFKA_BOOTSTRAP_SERVERS={HOST}:{port}."
    )
