"""Makes a message a dead letter after its last attempt, exactly once: its marker must not bring it back before."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from punctual.client.connection import Connection
from punctual.client.errors import KafkaUnreachableError, NotAcknowledgedError
from punctual.queue.markers import Markers
from punctual.queue.message import Message

log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5


async def make_letter(
    connection: Connection,
    markers: Markers,
    message: Message,
    error: BaseException | str | None,
    clock: Callable[[], float],
    hold_s: float,
) -> bool:
    """Return whether Kafka has the dead letter of a message; if not, the marker brings the message back for it.

    The marker is postponed by `hold_s` seconds first, longer than a request may take. Only if Kafka has
    acknowledged that before the deadline is the marker known to wait: otherwise it may have brought the message back,
    and the consumer that reads it makes the letter. Raises errors that retries cannot fix.
    """
    while (now := clock()) < message.deadline:
        try:
            await connection.send(markers.later(message, round(hold_s * 1_000)))
            if clock() >= message.deadline:
                return False
            message.deadline = now + hold_s
            await connection.send(markers.exhausted(message, error))
        except (NotAcknowledgedError, KafkaUnreachableError) as why:
            log.warning("the dead letter of %r could not be sent yet: %s", message, why)
            await asyncio.sleep(_AGAIN_S)
        else:
            return True
    return False
