"""Retries requests while a cluster recovers from the loss of a broker.

Until other brokers lead its partitions, requests to the broker fail although the configuration is correct.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiokafka.errors as kafka

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Brokers end another broker's session after 9 s (broker.session.timeout.ms), and then elect leaders.
PATIENCE_S, _AGAIN_S = 30.0, 0.5


async def patiently(ask: Callable[[], Awaitable[T]], what: str) -> T:
    """Call `ask` until it succeeds, or for PATIENCE_S while its errors are retriable; return its result.

    `what` names the request in the log. Raises the KafkaError that is not retriable, or the last one.
    """
    loop = asyncio.get_running_loop()
    until_s, logged = loop.time() + PATIENCE_S, False
    while True:
        try:
            return await ask()
        except kafka.KafkaError as error:
            if not getattr(error, "retriable", False) or loop.time() > until_s:
                raise
            if not logged:
                log.warning(
                    "%s: a broker does not answer (%r). Waiting for another broker, for at most %g s",
                    what,
                    error,
                    PATIENCE_S,
                )
            logged = True
        await asyncio.sleep(_AGAIN_S)
