"""Reads a destination as its consumers do, while messages come, and notes when each arrives."""

import threading
from typing import Self

from confluent_kafka import TopicPartition

from benchmarks.clock import now_ms
from benchmarks.topics import consumer

_POLL_S = 0.1


class Follower:
    """Follows all partitions of a topic from a thread, committed records only, inside the `with` block."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = consumer(bootstrap)
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.seen_ms: dict[str, int] = {}
        """When each key was first seen, in epoch milliseconds."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def _follow(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(_POLL_S)  # one by one: consume() waits for more
            if message is not None and not message.error():
                self.seen_ms.setdefault((message.key() or b"").decode(), now_ms())
