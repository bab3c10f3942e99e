"""A steady load over HTTP that goes on whatever happens, with a record of the answers."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import aiohttp

_AGAIN_S = 0.05
_STATUSES = (201, 202)


@dataclass
class Load:
    """Each key's messages one after the other, each again and again until it is acknowledged.

    Messages are named `<key>/<number>`. `new_id` makes their ids, so that a message can be scheduled again.
    """

    url: str
    to: str
    due_ms: int
    new_id: Callable[[bytes], str]
    keys: int
    per_s: float
    answers: Counter[int] = field(default_factory=Counter)
    #: Acknowledged messages by key.
    taken: dict[str, list[str]] = field(default_factory=dict)
    #: Requests without an answer: their connection has ended.
    lost: int = 0
    longest_s: float = 0.0
    #: Messages that were sent more than once, because an answer was missing or reported a full spool.
    repeated: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """How many messages were acknowledged."""
        return sum(map(len, self.taken.values()))

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(self._key(session, f"key-{number}", number) for number in range(self.keys)))

    async def _key(self, session: aiohttp.ClientSession, key: str, number: int) -> None:
        every_s, loop = self.keys / self.per_s, asyncio.get_running_loop()
        at, taken = loop.time() + every_s * number / self.keys, self.taken.setdefault(key, [])
        while not self._stop.is_set():
            await asyncio.sleep(at - loop.time())
            name = f"{key}/{len(taken)}"
            await self._until_taken(session, key, name)
            taken.append(name)
            at = max(at + every_s, loop.time() - 1)  # a delay is made good for at most a second

    async def _until_taken(self, session: aiohttp.ClientSession, key: str, name: str) -> None:
        item = {"to": self.to, "at": self.due_ms, "key": key, "value": name, "id": self.new_id(key.encode())}
        while True:
            began = time.monotonic()
            try:
                async with session.post(f"{self.url}/api/v1/messages", json=item) as answer:
                    await answer.read()
                    self.answers[answer.status] += 1
                    self.longest_s = max(self.longest_s, time.monotonic() - began)
                    if answer.status in _STATUSES:
                        return
            except (aiohttp.ClientError, TimeoutError, OSError):
                self.lost += 1
            self.repeated.add(name)
            await asyncio.sleep(_AGAIN_S)
