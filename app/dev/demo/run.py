"""One run, from the first topic to the last summary."""

import asyncio
import signal
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from random import Random
from typing import Any

from app.dev.demo.arrivals import DeliveryReader
from app.dev.demo.installation import DemoInstallation, create_topics
from app.dev.demo.options import DemoOptions
from app.dev.demo.screen import Screen
from app.dev.demo.story import orders
from app.dev.demo.tally import DemoTally
from app.dev.demo.traffic import Traffic
from punctual import DelayClient

SUMMARY_EVERY_S = 10.0
WATCH_EVERY_S = 0.5
LONGEST_DELAY_S = 60.0


async def run(options: DemoOptions, place: DemoInstallation, screen: Screen) -> None:
    """Start the workers and play until a signal or --seconds. Raises the error that ended it early."""
    stop = _on_signals()
    tally = DemoTally()
    arrivals = DeliveryReader(place.settings.kafka, tally, screen)
    screen.say(f"Kafka       {place.settings.kafka.bootstrap}")
    async with AsyncExitStack() as opened:
        await create_topics(place.settings.kafka, place.settings.topics)
        opened.push_async_callback(arrivals.stop)
        await arrivals.start()
        if not await _until(stop, None, _start_workers(place, screen)):
            return
        client = DelayClient(
            place.settings.kafka.bootstrap, app_id=place.settings.topics.app_id, **place.settings.kafka.options()
        )
        await opened.enter_async_context(client)
        longest_s = min(LONGEST_DELAY_S, (options.seconds or 2 * LONGEST_DELAY_S) / 2)
        story = orders(Random(), int(time.time()) % 1_000_000, longest_s)  # noqa: S311 - a story, no secret
        traffic = Traffic(client, tally, screen).run(story, options.rate)
        await _until(stop, options.seconds, traffic, arrivals.run(), _summaries(tally, screen), _watch(place))
        screen.summary(tally.summary())


def _on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _start_workers(place: DemoInstallation, screen: Screen) -> None:
    for worker in place.workers:
        worker.start()
        screen.say(f"Worker      {worker.url}   log: {worker.log}")
    await place.wait_ready()
    screen.say(f"Console     {place.workers[0].url}\nCtrl-C      stops everything.\n")


async def _until(stop: asyncio.Event, seconds: float | None, *parts: Coroutine[Any, Any, None]) -> bool:
    """Run the parts until one ends, `stop` is set or `seconds` have passed; return whether a part ended by itself."""
    stopping = asyncio.create_task(stop.wait())
    tasks = [asyncio.create_task(part) for part in parts]
    done, pending = await asyncio.wait({stopping, *tasks}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done - {stopping}:
        task.result()
    return bool(done - {stopping})


async def _summaries(tally: DemoTally, screen: Screen) -> None:
    while True:
        await asyncio.sleep(SUMMARY_EVERY_S)
        screen.summary(tally.summary())


async def _watch(place: DemoInstallation) -> None:
    while True:
        await asyncio.sleep(WATCH_EVERY_S)
        place.check()
