"""Puts together the parts for idempotency keys, and runs them next to a gateway."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from app.base.process.datadir import stored_value
from app.engine.topics.creation import ensure_receipts
from app.gateway.keys.follower import ReceiptFollower
from app.gateway.keys.keys import Keys
from app.gateway.keys.receipt import Known
from app.gateway.keys.store import KeyStore
from app.gateway.keys.writer import ReceiptWriter
from app.gateway.spool.disk_room import DiskRoom
from app.kafka.produce.sender import Sender
from app.settings.kafka import KafkaSettings
from app.settings.topics import TopicSettings


class KeyService:
    """The keys of a gateway, with all parts that they need; `keys` works with and without Kafka."""

    def __init__(self, kafka: KafkaSettings, topics: TopicSettings, path: Path, now_ms: Callable[[], int]) -> None:
        """Open the store in the gateway's data directory.

        Raises a TableError or DataDirectoryUnusable if that fails.
        """
        self._topic, self._now_ms = topics.receipts, now_ms
        self._store = KeyStore(path / "keys")
        room = DiskRoom(path)
        options: Mapping[str, Any] = {"bootstrap_servers": kafka.bootstrap, **kafka.options()}
        self.follower = ReceiptFollower(self._topic, self._store, lambda: ensure_receipts(kafka, topics), options)
        self.keys = Keys(stored_value(path, "gateway-id", uuid.uuid4().hex), self._store, self.follower, now_ms, room)

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
