"""Tells the workers' page how a queue is: a record every few seconds, where the installation has a topic for them."""

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
    """Reports on one consumer. Nothing else of the queue waits for it."""

    def __init__(self, connection: Connection, report: Callable[[], QueueReport]) -> None:
        """Write through a connection to the topic; `report` tells how things are."""
        self._connection, self._report = connection, report
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Report soon: something has changed that people wait for."""
        self._changed.set()

    async def run(self) -> None:
        """Report until cancelled; what cannot be written is said once, and tried again."""
        failing = False
        while True:
            self._changed.clear()
            try:
                await self._say()
                failing = False
            except DelayError as error:
                if not failing:
                    log.warning("the workers' page does not show this queue: %s", error)
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
        """Take the report back, as far as that takes no time, and disconnect."""
        if self._connection.is_open:
            with suppress(DelayError):  # then it is left on the page for a moment
                await self._connection.send(Request(self._report().key, None, (), None))
        await self._connection.close()
