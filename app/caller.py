"""Makes failure callbacks over HTTP."""

import asyncio
from collections.abc import Callable

import aiohttp

from app.outcome import Called, Uncalled
from app.partition import Partition, Way
from tables import Entry

_TIMEOUT_S = 10
_AT_ONCE = 16
_OK = range(200, 300)
#: The way of all callbacks: what does not fit is held like a message whose destination is blocked.
WAY: Way = (None, "failure callbacks", -2)


class Caller:
    """Makes callbacks: POST with a JSON body; any 2xx answer counts as taken, redirects are not followed."""

    def __init__(self, room: Callable[[], None]) -> None:
        """Connect to nobody yet; `room` is called when there is room again."""
        self._room = room
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def full(self) -> bool:
        """Whether as many callbacks are on their way as may be."""
        return len(self._tasks) >= _AT_ONCE

    def call(self, partition: Partition, key: bytes, entry: Entry) -> None:
        """Make a callback; its partition hears what became of it."""
        partition.claim(key, entry)
        task = asyncio.get_running_loop().create_task(self._post(partition, key, entry))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._room()

    async def _post(self, partition: Partition, key: bytes, entry: Entry) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_TIMEOUT_S))
        try:
            headers = {"Content-Type": "application/json", "Idempotency-Key": entry.source}
            async with self._session.post(
                entry.url or "", data=entry.value, headers=headers, allow_redirects=False
            ) as answer:
                why = "" if answer.status in _OK else f"HTTP {answer.status}"
        except (aiohttp.ClientError, TimeoutError, ValueError, IndexError) as error:
            why = repr(error)
        partition.tell(Uncalled(key, why) if why else Called(key))

    async def stop(self) -> None:
        """Abandon callbacks on their way: they are made again after a restart."""
        for task in self._tasks:
            task.cancel()
        if self._session is not None:
            await self._session.close()
