"""Plays the story through the client, as a shop would."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from app.dev.demo.installation import ORDERS, REMINDERS
from app.dev.demo.screen import Screen
from app.dev.demo.story import Order, Turn
from app.dev.demo.tally import DemoTally
from punctual import DelayClient


class Traffic:
    """Sends each order's message and its changes, at a steady rate."""

    def __init__(self, client: DelayClient, tally: DemoTally, screen: Screen) -> None:
        """Send through an open `client`, count in `tally`, and show on `screen`."""
        self._client, self._tally, self._screen = client, tally, screen

    async def run(self, story: Iterator[Order], per_second: float) -> None:
        """Play orders until cancelled. Raises the first error of the client."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.TaskGroup() as group:
                for count, order in enumerate(story, start=1):
                    group.create_task(self._play(order))
                    await asyncio.sleep(began + count / per_second - loop.time())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _play(self, order: Order) -> None:
        await self._delay(order)
        if order.turn is not None:
            await asyncio.sleep(order.turn.after_s)
            if self._tally.is_waiting(order.id):
                await self._change(order, order.turn)

    async def _delay(self, order: Order) -> None:
        delay, value = timedelta(seconds=order.due_s), {"order": order.number, "text": order.text}
        if order.prepaid:
            await self._client.delay(ORDERS, value, id=order.id, key=str(order.number), at=datetime.now(UTC) + delay)
        else:
            await self._client.delay(REMINDERS, value, id=order.id, key=str(order.number), after=delay)
        self._tally.send(order.id)
        self._screen.event("delay", order.id, f"due in {order.due_s:.1f} s", order.text)

    async def _change(self, order: Order, turn: Turn) -> None:
        figure = ""
        if turn.change == "cancel":
            await self._client.cancel(order.id)
            self._tally.cancel(order.id)
        elif turn.change == "hurry":
            await self._client.deliver_now(order.id)
        else:
            await self._client.reschedule(order.id, after=timedelta(seconds=turn.again_s))
            self._tally.rescheduled += 1
            figure = f"due in {turn.again_s:.1f} s"
        self._screen.event(turn.change, order.id, figure, f"{order.text.partition(':')[0]} {turn.why}")
