"""Watches the shop's topics and shows each delivery and how late it was."""

from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from app.dev.demo.installation import ORDERS, PARTITIONS, REMINDERS
from app.dev.demo.screen import Screen
from app.dev.demo.tally import DemoTally
from app.settings.kafka import KafkaSettings
from punctual.contract import headers as names


class DeliveryReader:
    """Reads `orders` and `reminders` from `start` on, outside any consumer group."""

    def __init__(self, kafka: KafkaSettings, tally: DemoTally, screen: Screen) -> None:
        """Create a consumer, which reads from the ends at the time of `start`."""
        self._tally, self._screen = tally, screen
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap, enable_auto_commit=False, **kafka.options()
        )

    async def start(self) -> None:
        """Connect, and begin at the topics' present ends."""
        await self._consumer.start()
        places = [TopicPartition(topic, p) for topic in (ORDERS, REMINDERS) for p in range(PARTITIONS)]
        self._consumer.assign(places)
        await self._consumer.seek_to_end(*places)
        for place in places:
            # Seeking is lazy; asking for the positions now keeps them from moving past the first deliveries.
            await self._consumer.position(place)

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()

    async def run(self) -> None:
        """Show arrivals until cancelled."""
        async for record in self._consumer:
            headers = dict(record.headers)
            message_id, due = headers.get(names.ID), headers.get(names.DUE)
            if message_id is not None and due is not None:
                self._arrived(message_id.decode(), record.timestamp - int(due), record.value)

    def _arrived(self, message_id: str, late_ms: int, value: bytes | None) -> None:
        what = self._tally.arrive(message_id, late_ms)
        self._screen.event("EARLY" if late_ms < 0 else what, message_id, f"{late_ms} ms late", _text(value))


def _text(value: bytes | None) -> str:
    try:
        return str(msgspec.json.decode(value or b"{}").get("text", ""))
    except (msgspec.DecodeError, AttributeError):
        return ""
