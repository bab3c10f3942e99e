"""TCP ports of the loopback interface."""

import socket

from app.embedded.errors import PortTakenError

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port on which nothing listens now; another process may still take it before you do."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def require_free(port: int) -> None:
    """Check that a server could listen on this port.

    Raises:
        PortTakenError: something else does.
    """
    with socket.socket() as probe:
        # As Java's own listener does: connections that linger from an earlier run are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise PortTakenError(port_taken(port)) from error


def port_taken(port: int) -> str:
    """Return the sentence that explains a taken port."""
    return (
        f"Port {port} on {HOST} is in use by another process. Stop that one or choose another with KAFKA_PORT; "
        f"if it is a Kafka, use it with KAFKA_BOOTSTRAP_SERVERS={HOST}:{port}."
    )
