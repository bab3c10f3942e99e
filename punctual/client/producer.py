"""One Kafka producer, idempotent and acknowledged by all in-sync replicas."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from punctual.client.errors import InvalidOptionError, KafkaUnreachableError
from punctual.client.requests import Request
from punctual.security.reason import reason

_FIXED: Final = frozenset(
    {"acks", "enable_idempotence", "transactional_id", "key_serializer", "value_serializer", "partitioner"}
)
"""Options of Kafka's producer that the promises rest on."""

_FAREWELL_SECONDS: Final = 0.5
"""How long requests under way may take to notice that their connections are closed."""


class Producer:
    """Sends requests to the partitions they are given for. Belongs to the event loop that opened it."""

    def __init__(self, kafka: Any) -> None:
        """Wrap a producer; `open` makes one."""
        self._kafka = kafka
        self.spoiled = False
        """Whether the broker refused a batch: that leaves a gap in the sequence numbers, and a producer id with a gap
        never gets another record into that partition. Its owner must open a new one."""

    @staticmethod
    def check(options: Mapping[str, object]) -> None:
        """Raise InvalidOptionError for an option that the promises rest on."""
        fixed = sorted(_FIXED & options.keys())
        if fixed:
            raise InvalidOptionError(
                f"{', '.join(fixed)} cannot be changed, because the delivery guarantees depend on it: leave it out."
            )

    @classmethod
    async def open(cls, servers: str | Sequence[str], options: Mapping[str, Any], seconds: float) -> "Producer":
        """Connect within so many seconds and learn which topics exist, without creating any.

        Raises KafkaUnreachableError.
        """
        # Loading Kafka's client takes a tenth of a second: only who connects pays for it.
        from aiokafka import AIOKafkaProducer  # noqa: PLC0415
        from aiokafka.errors import KafkaConnectionError, KafkaError  # noqa: PLC0415

        settings = {"client_id": "delay-client", "linger_ms": 0, **options}
        kafka = AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True, **settings)
        try:
            async with asyncio.timeout(seconds):
                await kafka.start()
                producer = cls(kafka)
                await producer.look()
        except (KafkaError, OSError) as error:
            await kafka.stop()
            if isinstance(error, TimeoutError):
                raise KafkaUnreachableError.after(servers, seconds) from error
            cause: object = error
            if isinstance(error, KafkaConnectionError):  # a refused login is a KafkaConnectionError too
                cause = await reason(servers, options) or error
            raise KafkaUnreachableError(servers, cause) from error
        except BaseException:
            await kafka.stop()
            raise
        return producer

    async def look(self) -> None:
        """Learn anew which topics exist, without creating any."""
        # With no topic named, Kafka's client asks for all: unlike a question for one, that creates no topic.
        await self._kafka.client.force_metadata_update()

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, 0 when it does not exist."""
        return len(self._kafka.client.cluster.partitions_for_topic(topic) or ())

    def available(self, topic: str) -> list[int]:
        """Return the topic's partitions that have a leader now."""
        return sorted(self._kafka.client.cluster.available_partitions_for_topic(topic) or ())

    async def queue(self, topic: str, partition: int, request: Request) -> "asyncio.Future[Any]":
        """Return the future of the record's metadata, once there is room for the record in the send buffer."""
        headers = list(request.headers)
        future: asyncio.Future[Any]
        if request.key is not None or request.value is not None:
            future = await self._kafka.send(
                topic, value=request.value, key=request.key, partition=partition, headers=headers
            )
        else:
            # Kafka takes a record without key and value, `send` does not; a batch of one record does the same.
            batch = self._kafka.create_batch()
            batch.append(timestamp=None, key=None, value=None, headers=headers)
            future = await self._kafka.send_batch(batch, topic, partition=partition)
        return future

    async def queue_all(
        self, topic: str, by_partition: Mapping[int, Sequence[Request]]
    ) -> "list[tuple[asyncio.Future[Any], list[Request]]]":
        """Return the future of each batch that these requests make, and its requests, once there is room for them."""
        batches: list[tuple[asyncio.Future[Any], list[Request]]] = []
        for partition, requests in by_partition.items():
            batch, within = self._kafka.create_batch(), list[Request]()
            for request in requests:
                said = {"timestamp": None, "key": request.key, "value": request.value, "headers": list(request.headers)}
                if batch.append(**said) is None:  # it is full
                    batches.append((await self._kafka.send_batch(batch, topic, partition=partition), within))
                    batch, within = self._kafka.create_batch(), []
                    batch.append(**said)
                within.append(request)
            batch.close()
            batches.append((await self._kafka.send_batch(batch, topic, partition=partition), within))
        return batches

    async def close(self, seconds: float) -> None:
        """Disconnect after what is queued has gone out, but within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._kafka.flush()
        except TimeoutError:
            await self._abandon()
        else:
            await self._kafka.stop()

    async def _abandon(self) -> None:
        # Idempotent batches never expire: without a broker, stop() would wait for them for ever. Connections go first,
        # so that requests under way fail at once and not after their own timeout.
        kafka = self._kafka
        kafka._closed = True  # noqa: SLF001 - what stop() does first
        await kafka.client.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await kafka._sender.close()  # noqa: SLF001 - what stop() does last
