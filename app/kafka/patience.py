"""Limits the time that brokers have to answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from aiokafka.errors import KafkaError


@contextlib.asynccontextmanager
async def brokers_answer(seconds: float, failure: Callable[[Exception], Exception]) -> AsyncIterator[None]:
    """Raise the exception that `failure` returns if the brokers do not answer within `seconds`, or with an error."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except (TimeoutError, KafkaError) as error:
        raise failure(error) from error
