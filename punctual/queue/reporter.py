"""Tells the workers' page how a queue is: a record every few seconds, where the installation has a topic for them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from punctual.client.connection import Connection
from punctual.client.errors import DelayError
from punctual.client.requests import Request
from punctual.contract.queue_report import QueueReport

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_LAST_S: Final = 2.0


class Reporter:
    """Reports on one consumer. Nothing else of the queue waits for it."""

    def __init__(self, connection: Connection, report: Callable[[], QueueReport]) -> None:
        """Write through a connection to the topic; `report` tells how things are."""
        self._connection, self._report = connection, report
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Report soon: something has changed that people wait for."""
        self._changed.set()

    async def run(self) -> None:
        """Report until cancelled; what cannot be written is said once, and left."""
        try:
            await self._connection.open(None)
            while True:
                self._changed.clear()
                report = self._report()
                await self._connection.send(Request(report.key, msgspec.json.encode(report), (), None))
                try:
                    async with asyncio.timeout(_EVERY_S):
                        await self._changed.wait()
                except TimeoutError:
                    pass
        except DelayError as error:
            log.warning("the workers' page does not show this queue: %s", error)

    async def aclose(self) -> None:
        """Take the report back, as far as that takes no time, and disconnect."""
        if self._connection.is_open:
            try:
                async with asyncio.timeout(_LAST_S):
                    await self._connection.send(Request(self._report().key, None, (), None))
            except (DelayError, TimeoutError) as error:
                log.info("the last report of a queue is left on the workers' page for a moment: %s", error)
        await self._connection.close()
