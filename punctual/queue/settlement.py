"""Settles a queue's messages: acknowledged, refused, extended, or dead letters after the last attempt."""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from punctual.client.connection import Connection
from punctual.client.errors import InvalidOptionError
from punctual.client.times import span_ms
from punctual.contract.retry import Backoff
from punctual.queue.breaker import Breaker
from punctual.queue.held import Held
from punctual.queue.last_attempt import make_letter
from punctual.queue.markers import Markers
from punctual.queue.message import Message
from punctual.queue.outbox import Outbox
from punctual.queue.stats import Stats


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The keeper of a queue's messages: writes their markers, and counts them."""

    connection: Connection
    markers: Markers
    outbox: Outbox
    held: Held
    breaker: Breaker
    stats: Stats
    #: Set when the queue has room for more messages.
    changed: asyncio.Event
    #: The default delay of a refused message.
    backoff: Backoff
    ack_timeout_s: float

    async def settle(self, message: Message) -> None:
        """Send the end marker of a message that was processed."""
        if message.done:
            return
        self._done(message)
        self.breaker.succeeded()
        self.stats.acked += 1
        await self.outbox.put(self.markers.end(message))

    async def refuse(
        self, message: Message, delay: timedelta | None = None, error: BaseException | str | None = None
    ) -> None:
        """Postpone a message that has failed, or make it a dead letter after its last attempt."""
        if message.done:
            return
        after_ms = self.backoff.delay_ms(message.attempt, message.id) if delay is None else span_ms(delay, "delay")
        self._done(message)
        self.breaker.failed()
        self.stats.nacked += 1
        if not self.markers.is_over(message.attempt + 1):
            await self.outbox.put(self.markers.later(message, after_ms))
            return
        hold_s = self.markers.timeout_ms / 1_000 + 2 * self.ack_timeout_s
        if await make_letter(self.connection, self.markers, message, error, time.monotonic, hold_s):
            # The letter is written before the marker ends: if the process dies between, there are two letters instead
            # of none.
            self.stats.exhausted += 1
            await self.outbox.put(self.markers.end(message))

    async def prolong(self, message: Message, by: timedelta) -> None:
        """Postpone the marker and the deadline of a message that takes longer."""
        if message.done:
            raise InvalidOptionError(f"{message!r} is settled: there is nothing to extend.")
        by_ms, now = span_ms(by, "by"), time.monotonic()
        await self.connection.send(self.markers.later(message, by_ms))
        if time.monotonic() < message.deadline:  # else its marker may have brought it back before
            message.deadline = now + by_ms / 1000
            self.held.watch(message)

    def _done(self, message: Message) -> None:
        message.done = True
        self.held.settle(message)
        self.changed.set()
