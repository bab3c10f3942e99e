"""Makes writes to connections that were lost a moment ago raise aiokafka's error on uvloop, too.

asyncio drops bytes that are written to a transport without a connection; uvloop raises RuntimeError
(handles/handle.pyx, _ensure_alive). aiokafka treats only OSError as a lost connection (aiokafka/conn.py, send), and
notices the loss by itself only some turns of the event loop later.
"""

from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

_send, _send_token = AIOKafkaConnection.send, AIOKafkaConnection._send_sasl_token  # noqa: SLF001 - aiokafka's own


def install() -> None:
    """Make writes on lost connections raise KafkaConnectionError."""
    AIOKafkaConnection.send = _closing(_send)
    AIOKafkaConnection._send_sasl_token = _closing(_send_token)  # noqa: SLF001 - the same


def _closing(write: Any) -> Any:
    def written(self: AIOKafkaConnection, *args: Any, **options: Any) -> Any:
        try:
            return write(self, *args, **options)
        except RuntimeError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
            raise KafkaConnectionError(f"the connection to {self.host}:{self.port} is lost: {error}") from error

    return written
