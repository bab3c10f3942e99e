"""The reason for which brokers refuse a login, which aiokafka logs and then leaves out of its error."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_TIMEOUT_MS: Final = 5_000
_OF_A_LOGIN: Final = ("security_protocol", "ssl_context", "sasl_")


async def reason(servers: str | Sequence[str], options: Mapping[str, Any]) -> str:
    """Return why no server can be connected to now; empty if one can.

    Only the security `options` of aiokafka are used.
    """
    from aiokafka.conn import collect_hosts, create_conn  # noqa: PLC0415 - a tenth of a second
    from aiokafka.errors import KafkaError  # noqa: PLC0415

    shown = {name: value for name, value in options.items() if name.startswith(_OF_A_LOGIN)}
    why = "it has no server"
    for host, port, _ in collect_hosts(servers):
        try:
            connection = await create_conn(host, port, request_timeout_ms=_TIMEOUT_MS, **shown)
        except TimeoutError:
            return f"{host}:{port} has not answered within {_TIMEOUT_MS / 1000:g} s"  # trying others takes too long
        except (KafkaError, OSError) as error:
            why = f"{host}:{port}: {str(error) or type(error).__name__}"
        else:
            connection.close()
            return ""
    return why
