"""Markers that are sent to Kafka in the background, while the program goes on."""

import asyncio
import logging
from collections.abc import Sequence

from punctual.client.connection import Connection
from punctual.client.errors import DelayError, KafkaUnreachableError, NotAcknowledgedError
from punctual.client.requests import Request

log = logging.getLogger(__name__)

_MOST = 10_000
_AGAIN_S = 0.5


async def send_surely(connection: Connection, requests: Sequence[Request]) -> None:
    """Return once Kafka has all of the requests, however long that takes; their ids prevent duplicates.

    Raises errors that retries cannot fix.
    """
    while requests:
        try:
            await connection.send_all(requests)
        except (NotAcknowledgedError, KafkaUnreachableError) as error:
            log.warning("%d markers could not be sent yet: %s", len(requests), error)
            await asyncio.sleep(_AGAIN_S)
        else:
            return


class Outbox:
    """Sends requests in the background, in batches and in their order, with a maximum of waiting requests."""

    def __init__(self, connection: Connection) -> None:
        """Send through a connection, which must be open while `run` is running."""
        self._connection = connection
        self._waiting: list[Request] = []
        self._sending = False
        self._changed = asyncio.Event()
        self._error: DelayError | None = None

    async def put(self, request: Request) -> None:
        """Queue a request; waits while too many are queued. Raises the error that has stopped the outbox."""
        while len(self._waiting) >= _MOST and self._error is None:
            await self._pulse()
        if self._error is not None:
            raise self._error
        self._waiting.append(request)
        self._changed.set()

    async def run(self) -> None:
        """Send requests, until cancelled."""
        while True:
            while not self._waiting:
                await self._pulse()
            requests, self._waiting = self._waiting, []
            self._sending = True
            try:
                await send_surely(self._connection, requests)
            except DelayError as error:
                self._error = error
                raise
            finally:
                self._sending = False
                self._changed.set()

    async def drained(self) -> None:
        """Return when Kafka has all requests, or the outbox has failed."""
        while (self._waiting or self._sending) and self._error is None:
            await self._pulse()

    async def _pulse(self) -> None:
        self._changed.clear()
        await self._changed.wait()
