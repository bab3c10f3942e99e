"""Tries bootstrap servers in parallel, so that a server that hangs delays no client.

aiokafka tries them one after the other (aiokafka/client.py, bootstrap), 40 s each if a server accepts the connection
but does not answer, and a worker opens several clients at its start.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaConnectionError, KafkaError

from app.kafka.wire.live_client import heard

log = logging.getLogger(__name__)

_bootstrap = AIOKafkaClient.bootstrap
_Try = asyncio.Future[tuple[str, int] | None]
#: Servers that failed when they were last tried; each is logged once, however many clients try it.
_unusable = set[tuple[str, int]]()
#: Unfinished tries after another server has answered, kept here because an event loop only has weak references.
_ending = set[_Try]()
#: Arguments of create_conn() that are attributes of a client, whose names begin with an underscore.
_OPTIONS = (
    "client_id",
    "request_timeout_ms",
    "ssl_context",
    "security_protocol",
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
    "sasl_oauth_token_provider",
)


def install() -> None:
    """Make all of aiokafka's clients use the first server that answers."""
    AIOKafkaClient.bootstrap = _begin


async def _begin(self: AIOKafkaClient) -> None:
    servers = self._bootstrap_servers
    hosts = [(host, port) for host, port, _ in collect_hosts(servers)]
    if len(hosts) > 1:
        options = {name: getattr(self, f"_{name}") for name in _OPTIONS}
        host, port = await _first_of(hosts, options)
        self._bootstrap_servers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    try:
        await _bootstrap(self)
    finally:
        self._bootstrap_servers = servers


async def _first_of(hosts: Sequence[tuple[str, int]], options: dict[str, Any]) -> tuple[str, int]:
    """Return the first server that speaks Kafka and accepts the login. Raises KafkaConnectionError if none does."""
    tries = [asyncio.ensure_future(_answers(host, port, options)) for host, port in hosts]
    try:
        for answer in asyncio.as_completed(tries):
            server = await answer
            if server is not None:
                _let_end(tries)
                return server
    except BaseException:
        for task in tries:
            task.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
        raise
    msg = f"Unable to bootstrap from {', '.join(f'{host}:{port}' for host, port in hosts)}"
    raise KafkaConnectionError(msg)


def _let_end(tries: Sequence[_Try]) -> None:
    """Let the other servers answer or fail without waiting for them, so that unusable ones are logged."""
    for task in tries:
        task.add_done_callback(heard)
        _ending.add(task)
        task.add_done_callback(_ending.discard)


async def _answers(host: str, port: int, options: dict[str, Any]) -> tuple[str, int] | None:
    """Return a server that accepts connections, None if it does not."""
    try:
        # On cancellation during a name lookup, uvloop's connect would leave the lookup's error unretrieved.
        await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        connection = await create_conn(host, port, **options)
    except (OSError, KafkaError, TimeoutError) as error:
        if (host, port) not in _unusable:
            _unusable.add((host, port))
            log.warning("bootstrap server %s:%s cannot be used: %s", host, port, str(error) or type(error).__name__)
        return None
    _unusable.discard((host, port))
    connection.close()
    return host, port
