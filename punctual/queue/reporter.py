"""Reports the state of a queue to the console: a record every few seconds, if the installation has a topic for them."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from punctual.client.connection import Connection
from punctual.client.errors import DelayError
from punctual.client.requests import Request
from punctual.contract.queue_report import QueueReport

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0


class Reporter:
    """Reports on one consumer, without delaying the queue."""

    def __init__(self, connection: Connection, report: Callable[[], QueueReport]) -> None:
        """Write through a connection to the topic; `report` returns the current state."""
        self._connection, self._report = connection, report
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Report soon, because of a change that should be visible."""
        self._changed.set()

    async def run(self) -> None:
        """Report until cancelled; failures are logged once, and retried."""
        failing = False
        while True:
            self._changed.clear()
            try:
                await self._say()
                failing = False
            except DelayError as error:
                if not failing:
                    log.warning("the console does not show this queue: %s", error)
                failing = True
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._changed.wait()

    async def _say(self) -> None:
        if not self._connection.is_open:
            await self._connection.open(None)
        report = self._report()
        await self._connection.send(Request(report.key, msgspec.json.encode(report), (), None))

    async def aclose(self) -> None:
        """Delete the report, if the connection is open, and disconnect."""
        if self._connection.is_open:
            with suppress(DelayError):  # then the console shows it for a short time
                await self._connection.send(Request(self._report().key, None, (), None))
        await self._connection.close()
