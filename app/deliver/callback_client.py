"""Makes failure callbacks over HTTP."""

import asyncio
from collections import Counter
from collections.abc import Callable

import aiohttp
import yarl

from app.partition.partition import Partition
from app.route import CALLBACK, Route
from app.steps.outcomes import Called, Uncalled
from tables import Entry

_TIMEOUT_S = 10
#: How many may be in flight in all, to one host, and to one whose last callback has timed out: hosts that do not answer
#: must not be able to take all the room.
_AT_ONCE, _PER_HOST, _AFTER_TIMEOUT = 64, 4, 1
#: Hosts may be the senders' choice: what is known of slow ones is bounded.
_REMEMBERED = 10_000
_OK = range(200, 300)
#: They are reported under one name.
_NAME = "failure callbacks"


class CallbackClient:
    """Makes callbacks: POST with a JSON body; any 2xx answer counts as taken, redirects are not followed."""

    def __init__(self, room: Callable[[], None]) -> None:
        """Connect to nobody yet; `room` is called when there is room again."""
        self._room = room
        self._session: aiohttp.ClientSession | None = None
        self._tasks: dict[asyncio.Task[None], Route] = {}
        #: How many are in flight to each host, and the hosts whose last callback has timed out.
        self._under_way = Counter[Route]()
        self._slow = set[Route]()

    def route(self, url: str) -> Route:
        """Return the route of callbacks to a URL: that of its host and port."""
        try:
            host = yarl.URL(url).authority.rpartition("@")[2]
        except (ValueError, IndexError):
            host = ""
        return host, _NAME, CALLBACK

    def full(self, route: Route) -> bool:
        """Return whether as many callbacks are in flight, to this host or in all, as are allowed."""
        limit = _AFTER_TIMEOUT if route in self._slow else _PER_HOST
        return len(self._tasks) >= _AT_ONCE or self._under_way[route] >= limit

    def call(self, partition: Partition, key: bytes, entry: Entry, route: Route) -> None:
        """Make a callback; its partition hears what became of it."""
        partition.in_flight.claim(key, entry, route)
        task = asyncio.get_running_loop().create_task(self._post(partition, key, entry, route))
        self._tasks[task] = route
        self._under_way[route] += 1
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._under_way -= Counter([self._tasks.pop(task)])  # hosts that have none left go
        self._room()

    async def _post(self, partition: Partition, key: bytes, entry: Entry, route: Route) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_TIMEOUT_S))
        try:
            said = {name: (value or b"").decode() for name, value in entry.headers}
            headers = {"Content-Type": "application/json", "Idempotency-Key": entry.source, **said}
            async with self._session.post(
                entry.url or "", data=entry.value, headers=headers, allow_redirects=False
            ) as answer:
                why = "" if answer.status in _OK else f"HTTP {answer.status}"
            self._slow.discard(route)
        except (aiohttp.ClientError, TimeoutError, ValueError, IndexError) as error:
            why = repr(error)
            if isinstance(error, TimeoutError) and len(self._slow) < _REMEMBERED:
                self._slow.add(route)
        partition.tell(Uncalled(key, why) if why else Called(key))

    async def stop(self) -> None:
        """Abandon callbacks in flight: they are made again after a restart."""
        for task in list(self._tasks):
            task.cancel()
        if self._session is not None:
            await self._session.close()
