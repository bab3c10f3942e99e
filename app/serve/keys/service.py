"""Puts together the parts for idempotency keys, and runs them next to a worker or a gateway."""

import asyncio
import contextlib
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
from app.serve.keys.follower import ReceiptFollower
from app.serve.keys.keys import Keys, OwnKeys
from app.serve.keys.receipt import Known
from app.serve.keys.store import KeyStore
from app.serve.keys.writer import ReceiptWriter
from app.settings.kafka import KafkaSettings
from app.settings.topics import TopicSettings
from tables.errors import TableError

#: The directory of the keys, in the data directory.
KEYS = "keys"


class KeyService:
    """The keys of a server, with all parts that they need."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: TopicSettings,
        path: Path,
        now_ms: Callable[[], int],
        *,
        without_kafka: bool = True,
    ) -> None:
        """Open the store in the data directory `path`.

        With `without_kafka`, requests succeed while Kafka is down, so keys do too. Raises a TableError or
        DataDirectoryUnusable if the disk fails.
        """
        self._topic, self._now_ms = topics.receipts, now_ms
        self._store = KeyStore(path / KEYS)
        options: Mapping[str, Any] = {"bootstrap_servers": kafka.bootstrap, **kafka.options()}
        self.follower = ReceiptFollower(self._topic, self._store, lambda: ensure_receipts(kafka, topics), options)
        own = OwnKeys(stored_value(path, "gateway-id", uuid.uuid4().hex), without_kafka)
        self.keys = Keys(own, self._store, self.follower, now_ms, DiskRoom(path))

    async def run(self, sender: Awaitable[Sender]) -> None:
        """Follow the topic, and write to it with `sender` once there is one, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follower.run())
            tasks.create_task(self.keys.run())
            self.keys.connected(ReceiptWriter(await sender, self._topic, self._now_ms))

    def known(self, digest: bytes) -> Known | None:
        """Return a known key, or None."""
        return self._store.known(digest, self._now_ms())

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class RunningKeys:
    """The keys of a server while it runs; they are opened when they are needed, because most servers see none."""

    def __init__(self, opened: Callable[[], KeyService], sender: Callable[[], Awaitable[Sender]]) -> None:
        """Open the keys with `opened`, and write them with `sender`."""
        self._opened, self._sender = opened, sender
        self._service: KeyService | None = None
        self._running: asyncio.Task[None] | None = None

    def begin(self) -> Keys:
        """Return the keys, opened and followed. Raises KeysUnwritable if the disk fails."""
        if self._service is None:
            try:
                self._service = self._opened()
            except (TableError, PunctualError) as error:
                raise KeysUnwritable(error) from error
            self._running = asyncio.get_running_loop().create_task(self._service.run(self._sender()))
            self._running.add_done_callback(telling(end_process))
        return self._service.keys

    async def end(self) -> None:
        """Stop following, and close the store; a second call has no effect."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._running})
        if self._service is not None:
            self._service.close()
