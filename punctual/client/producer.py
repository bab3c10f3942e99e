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
    """Sends requests to given partitions. Use it on the event loop that opened it."""

    def __init__(self, kafka: Any) -> None:
        """Wrap a started producer; `open` creates one."""
        self._kafka = kafka
        self.spoiled = False
        """Whether the broker refused a batch: that leaves a gap in the sequence numbers, and a producer id with a gap
        never gets another record into that partition. Its owner must open a new one."""

    @staticmethod
    def check(options: Mapping[str, object]) -> None:
        """Raise InvalidOptionError for an option on which the guarantees depend."""
        fixed = sorted(_FIXED & options.keys())
        if fixed:
            raise InvalidOptionError(
                f"{', '.join(fixed)} cannot be changed, because the delivery guarantees depend on it: leave it out."
            )

    @classmethod
    async def open(cls, servers: str | Sequence[str], options: Mapping[str, Any], seconds: float) -> "Producer":
        """Connect within `seconds` and load the existing topics, without creating any.

        Raises KafkaUnreachableError.
        """
        # Loading Kafka's client takes a tenth of a second, which programs that do not connect are spared.
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
        """Load the existing topics again, without creating any."""
        # Without a topic's name, Kafka's client requests all topics, which creates none; a request for one topic would.
        await self._kafka.client.force_metadata_update()

    def partitions(self, topic: str) -> int:
        """Return the topic's number of partitions, 0 if it does not exist."""
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
            # `send` refuses a record without key and value, which Kafka accepts; a batch of one record avoids that.
            batch = self._kafka.create_batch()
            batch.append(timestamp=None, key=None, value=None, headers=headers)
            future = await self._kafka.send_batch(batch, topic, partition=partition)
        return future

    async def queue_all(
        self, topic: str, by_partition: Mapping[int, Sequence[Request]]
    ) -> "list[tuple[asyncio.Future[Any], list[Request]]]":
        """Return the future and the requests of each batch, once there is room for them."""
        batches: list[tuple[asyncio.Future[Any], list[Request]]] = []
        for partition, requests in by_partition.items():
            batch, within = self._kafka.create_batch(), list[Request]()
            for request in requests:
                record = {
                    "timestamp": None,
                    "key": request.key,
                    "value": request.value,
                    "headers": list(request.headers),
                }
                if batch.append(**record) is None:  # the batch is full
                    batches.append((await self._kafka.send_batch(batch, topic, partition=partition), within))
                    batch, within = self._kafka.create_batch(), []
                    batch.append(**record)
                within.append(request)
            batch.close()
            batches.append((await self._kafka.send_batch(batch, topic, partition=partition), within))
        return batches

    async def close(self, seconds: float) -> None:
        """Disconnect after sending queued records, within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._kafka.flush()
        except TimeoutError:
            await self._abandon()
        else:
            await self._kafka.stop()

    async def _abandon(self) -> None:
        # Idempotent batches never expire: without a broker, stop() would wait for them for ever. Connections are closed
        # first, so that requests in flight fail at once instead of after their own timeout.
        kafka = self._kafka
        kafka._closed = True  # noqa: SLF001 - what stop() does first
        await kafka.client.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await kafka._sender.close()  # noqa: SLF001 - what stop() does last
