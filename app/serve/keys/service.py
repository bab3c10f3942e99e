"""Joins the parts for idempotency keys, and runs them next to a worker or a gateway."""

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from app.base.errors import PunctualError
from app.base.process.datadir import stored_value
from app.base.process.disk_room import DiskRoom
from app.base.process.fatal import end_process, telling
from app.engine.topics.creation import ensure_receipts
from app.kafka.produce.sender import Sender
from app.serve.keys.errors import KeysUnwritable
from app.serve.keys.follower import ReceiptFollower, ReceiptWriter
from app.serve.keys.keys import Keys, OwnKeys
from app.serve.keys.store import KeyStore
from app.settings.kafka import KafkaSettings
from app.settings.topics import TopicSettings
from tables.errors import TableError

#: The directory of the keys, in the data directory.
KEYS = "keys"


class KeyService:
    """The keys of a server while it runs; they are opened when they are needed, because most servers see none."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: TopicSettings,
        path: Path,
        now_ms: Callable[[], int],
        sender: Callable[[], Awaitable[Sender]],
        *,
        without_kafka: bool = True,
    ) -> None:
        """Store keys in the data directory `path`, and write them with the sender that `sender` returns.

        With `without_kafka`, requests succeed while Kafka is down, so keys do too.
        """
        self._kafka, self._topics, self._path, self._now_ms = kafka, topics, path, now_ms
        self._sender, self._without_kafka = sender, without_kafka
        self._store: KeyStore | None = None
        self._running: asyncio.Task[None] | None = None

    def open(self) -> Keys:
        """Open the store and return the keys. Raises a TableError or DataDirectoryUnusable if the disk fails."""
        if self._store is None:
            kafka, topics = self._kafka, self._topics
            own = OwnKeys(stored_value(self._path, "gateway-id", uuid.uuid4().hex), self._without_kafka)
            self._store = KeyStore(self._path / KEYS)
            options: Mapping[str, Any] = {"bootstrap_servers": kafka.bootstrap, **kafka.options()}
            ensure = functools.partial(ensure_receipts, kafka, topics)
            self.follower = ReceiptFollower(topics.receipts, self._store, ensure, options)
            self._keys = Keys(own, self._store, self.follower, self._now_ms, DiskRoom(self._path))
        return self._keys

    def begin(self) -> Keys:
        """Return the keys, opened and followed until end(). Raises KeysUnwritable if the disk fails."""
        try:
            keys = self.open()
        except (TableError, PunctualError) as error:
            raise KeysUnwritable(error) from error
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(keys))
            self._running.add_done_callback(telling(end_process))
        return keys

    async def _run(self, keys: Keys) -> None:
        """Follow the topic, and write to it once there is a sender, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follower.run())
            tasks.create_task(keys.run())
            keys.connected(ReceiptWriter(await self._sender(), self._topics.receipts, self._now_ms))

    async def end(self) -> None:
        """Stop following, and close the store; a second call has no effect."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._running})
        if self._store is not None:
            self._store.close()
