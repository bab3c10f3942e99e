"""Waits for a cluster of which a broker has just been lost: others lead its partitions within its session.

For as long requests fail that need that broker, though nothing is wrong with the configuration.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiokafka.errors as kafka

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Brokers end another broker's session after 9 s (broker.session.timeout.ms), and elect leaders after that.
PATIENCE_S, _AGAIN_S = 30.0, 0.5


async def patiently(ask: Callable[[], Awaitable[T]], what: str) -> T:
    """Do what needs brokers that may have been lost a moment ago, again and again for a while; return its answer.

    Raises the KafkaError that no other try mends, or that is still there after PATIENCE_S.
    """
    loop = asyncio.get_running_loop()
    until_s, told = loop.time() + PATIENCE_S, False
    while True:
        try:
            return await ask()
        except kafka.KafkaError as error:
            if not getattr(error, "retriable", False) or loop.time() > until_s:
                raise
            if not told:
                log.warning(
                    "%s: a broker does not answer (%r). Waiting for another broker, for at most %g s",
                    what,
                    error,
                    PATIENCE_S,
                )
            told = True
        await asyncio.sleep(_AGAIN_S)
