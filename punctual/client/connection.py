"""The connection to the requests topic: sends records to their home partitions, and waits for acknowledgements."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from punctual.client.errors import (
    InvalidIdError,
    KafkaUnreachableError,
    NotAcknowledgedError,
    NotAuthorizedError,
    PartitionCountError,
    RequestsTopicMissingError,
    RequestTooLargeError,
)
from punctual.client.producer import Producer
from punctual.client.requests import Request
from punctual.contract.home import home_partition, key_partition
from punctual.contract.namespaces import Namespaces
from punctual.contract.request import Refusal

_LOOKS: Final = 20
_LOOK_EVERY_S: Final = 0.05
"""A topic that was just created takes a broker up to some 60 ms to know (measured): a second is plenty."""


class Connection:
    """Sends records to one requests topic and returns their offsets. Use it on the event loop that opened it."""

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str,
        inputs: Collection[str],
        ack_timeout: timedelta,
        kafka: dict[str, Any],
        namespace: str = "",
    ) -> None:
        """Keep the address, the topic and its `namespace`; `open` connects."""
        Producer.check(kafka)
        self.topic: Final = topic
        self._servers = servers
        self._inputs = frozenset({topic, *inputs})
        self._namespace, self._namespaces = namespace, Namespaces(dict.fromkeys(self._inputs, namespace))
        self._ack_timeout = ack_timeout
        self._kafka = kafka
        self._producer: Producer | None = None
        #: By partition, the offset of the last request that `send_all` has sent.
        self.ends: Final[dict[int, int]] = {}
        self._renewing = asyncio.Lock()
        self._retired: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        """Whether `open` has succeeded, without a later `close`."""
        return self._producer is not None

    def full(self, id_: bytes) -> bytes:
        """Return the full name of an id in this namespace. Raises InvalidIdError if that is too long."""
        if not self._namespace:
            return id_
        try:
            return self._namespaces.full(self._namespace, id_.decode()).encode()
        except Refusal as refusal:
            raise InvalidIdError(refusal.sentence) from refusal

    def knows(self, topic: str) -> bool:
        """Return whether a topic existed when this connected."""
        return self._producer is not None and self._producer.partitions(topic) > 0

    async def open(self, expected_partitions: int | None) -> None:
        """Connect and check that the requests topic exists, without creating it.

        Raises KafkaUnreachableError, RequestsTopicMissingError or PartitionCountError.
        """
        seconds = self._ack_timeout.total_seconds()
        producer = await Producer.open(self._servers, self._kafka, seconds)
        try:
            async with asyncio.timeout(seconds + _LOOKS * _LOOK_EVERY_S):
                actual = await self._look(producer)
        except TimeoutError as error:
            await self._stop(producer)
            raise KafkaUnreachableError.after(self._servers, seconds) from error
        except BaseException:
            await self._stop(producer)
            raise
        if actual and expected_partitions in {None, actual}:
            self._producer = producer
            return
        await self._stop(producer)
        if not actual:
            raise RequestsTopicMissingError(self.topic)
        raise PartitionCountError(self.topic, expected_partitions or 0, actual)

    async def _look(self, producer: Producer) -> int:
        for _ in range(_LOOKS):
            if producer.partitions(self.topic):
                break
            await asyncio.sleep(_LOOK_EVERY_S)
            await producer.look()
        return producer.partitions(self.topic)

    async def close(self) -> None:
        """Disconnect after sending queued records, within the acknowledgement timeout."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await self._stop(producer)
        await asyncio.gather(*self._retired)

    async def send(self, request: Request) -> tuple[int, int]:
        """Return (partition, offset) of the record once all in-sync replicas have it.

        Raises NotAcknowledgedError, NotAuthorizedError, RequestTooLargeError or RequestsTopicMissingError.
        """
        from aiokafka import errors  # noqa: PLC0415 - loaded already, by the producer

        with self._named_errors():
            async with asyncio.timeout(self._ack_timeout.total_seconds()):
                while True:
                    producer = await self._sound_producer()
                    # The record was not stored, because an earlier batch left a gap: a new producer can send it.
                    with suppress(errors.OutOfOrderSequenceNumber, errors.UnknownProducerId):
                        return await self._send(producer, request)

    async def send_all(self, requests: Sequence[Request]) -> list[str]:
        """Return the sources of requests, `topic-partition-offset`, once all in-sync replicas have all requests.

        Requests of a partition keep their order. They are sent in batches, which is much cheaper than one at a time.
        Raises what `send` raises; some requests may then be stored.
        """
        with self._named_errors():
            async with asyncio.timeout(self._ack_timeout.total_seconds()):
                producer = await self._sound_producer()
                by_partition = defaultdict[int, list[Request]](list)
                for request in requests:
                    by_partition[self._partition(producer, request)].append(request)
                try:
                    batches = await producer.queue_all(self.topic, by_partition)
                    stored = await asyncio.gather(*(future for future, _ in batches))
                except Exception:
                    producer.spoiled = True
                    raise
        sources = dict[int, str]()
        for first, (_, batch) in zip(stored, batches, strict=True):
            for offset, request in enumerate(batch, first.offset):
                sources[id(request)] = f"{self.topic}-{first.partition}-{offset}"
                self.ends[first.partition] = max(offset, self.ends.get(first.partition, -1))
        return [sources[id(request)] for request in requests]

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn errors of Kafka's client into Punctual's own."""
        from aiokafka import errors  # noqa: PLC0415 - loaded already, by the producer

        try:
            yield
        except TimeoutError as error:
            raise NotAcknowledgedError.after(self.topic, self._ack_timeout) from error
        except (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError) as error:
            raise RequestTooLargeError(self.topic, error) from error
        except (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError) as error:
            raise NotAuthorizedError(self.topic, error) from error
        except errors.KafkaError as error:
            raise NotAcknowledgedError(self.topic, repr(error)) from error

    async def _send(self, producer: Producer, request: Request) -> tuple[int, int]:
        partition = self._partition(producer, request)
        future = await producer.queue(self.topic, partition, request)
        try:
            acknowledged = await future
        except Exception:
            producer.spoiled = True
            raise
        return partition, int(acknowledged.offset)

    def _partition(self, producer: Producer, request: Request) -> int:
        partitions = producer.partitions(self.topic)
        if not partitions:
            raise RequestsTopicMissingError(self.topic)
        if request.id is not None:
            return home_partition(self.full(request.id), self._inputs, partitions)
        if request.key is not None:
            return key_partition(request.key, partitions)
        return random.choice(producer.available(self.topic) or range(partitions))  # noqa: S311 - only spreads load

    async def _sound_producer(self) -> Producer:
        async with self._renewing:
            producer = self._producer
            if producer is None:
                raise NotAcknowledgedError(self.topic, "the client was closed in the meantime")
            if producer.spoiled:
                self._producer = await Producer.open(self._servers, self._kafka, self._ack_timeout.total_seconds())
                retired = asyncio.create_task(self._stop(producer))
                self._retired.add(retired)
                retired.add_done_callback(self._retired.discard)
                return self._producer
            return producer

    async def _stop(self, producer: Producer) -> None:
        await producer.close(self._ack_timeout.total_seconds())
