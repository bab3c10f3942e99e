"""Reads a queue's topic: start markers are in Kafka before the offsets of their records are committed."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from punctual.client.connection import Connection
from punctual.client.errors import InvalidDestinationError, InvalidOptionError, KafkaUnreachableError
from punctual.queue.markers import Markers
from punctual.queue.message import Keeper, Message
from punctual.queue.outbox import send_surely

log = logging.getLogger(__name__)

_POLL_MS: Final = 200
_FIXED: Final = frozenset({"enable_auto_commit", "group_id"})
_TIMED_OUT: Final = "no acknowledgement within the timeout"


class QueueIntake:
    """One consumer of the group. Use it on the event loop that opened it."""

    def __init__(self, consumer: Any, connection: Connection, markers: Markers, keeper: Keeper) -> None:
        """Wrap a started consumer; `open` creates one."""
        self._consumer, self._connection, self._markers, self._keeper = consumer, connection, markers, keeper
        #: The number of dead letters that it has made.
        self.exhausted = 0

    @classmethod
    async def open(
        cls,
        servers: str | Sequence[str],
        topics: Sequence[str],
        kafka: Mapping[str, Any],
        connection: Connection,
        markers: Markers,
        keeper: Keeper,
    ) -> "QueueIntake":
        """Join the group. Raises KafkaUnreachableError, InvalidDestinationError or InvalidOptionError."""
        # As in the client, only programs that connect load Kafka's client.
        from aiokafka import AIOKafkaConsumer  # noqa: PLC0415
        from aiokafka.errors import KafkaError  # noqa: PLC0415

        from punctual.bounded_fetch import bounded  # noqa: PLC0415

        fixed = sorted(_FIXED & kafka.keys())
        if fixed:
            raise InvalidOptionError(
                f"{', '.join(fixed)} cannot be changed, because the queue depends on it: leave it out."
            )
        for topic in topics:
            if not connection.knows(topic):
                raise InvalidDestinationError(f"The topic {topic} does not exist: create it first.")
        defaults = {"client_id": "delay-queue", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        consumer = bounded(
            AIOKafkaConsumer(
                *topics,
                bootstrap_servers=servers,
                group_id=markers.group,
                enable_auto_commit=False,
                **{**defaults, **kafka},
            )
        )
        try:
            await consumer.start()
        except (KafkaError, OSError) as error:
            await consumer.stop()
            shown = servers if isinstance(servers, str) else ", ".join(servers)
            raise KafkaUnreachableError(shown, error) from error
        except BaseException:
            await consumer.stop()
            raise
        return cls(consumer, connection, markers, keeper)

    async def close(self) -> None:
        """Leave the group."""
        await self._consumer.stop()

    async def take(self, limit: int, clock: Callable[[], float] = time.monotonic) -> list[Message]:
        """Return up to `limit` messages that cannot be lost: Kafka has their markers, and then their committed offsets.

        The list may be empty. Raises RequestTooLargeError, NotAuthorizedError or an error of Kafka's client; then no
        offset is committed, and the records are read again.
        """
        from aiokafka import errors  # noqa: PLC0415 - loaded already

        fetched = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=limit)
        if not fetched:
            return []
        done = False
        try:
            deadline = clock() + self._markers.timeout_ms / 1000  # before the marker's, which counts from its append
            messages = [self._message(record, deadline) for records in fetched.values() for record in records]
            over = [one for one in messages if self._markers.is_over(one.attempt)]
            messages = [one for one in messages if not self._markers.is_over(one.attempt)]
            letters = [self._markers.exhausted(one, _TIMED_OUT) for one in over]
            await send_surely(self._connection, [*map(self._markers.start, messages), *letters])
            await self._consumer.commit({place: records[-1].offset + 1 for place, records in fetched.items()})
            done = True
        except (errors.CommitFailedError, errors.IllegalStateError) as error:
            log.info(
                "the group has rebalanced; %d records are left to the partitions' new owners: %s", len(messages), error
            )
            return []
        finally:
            if not done:
                self._go_back(fetched)
        self.exhausted += len(over)
        return messages

    def _message(self, record: Any, deadline: float) -> Message:
        return Message(
            self._keeper,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
            attempt=self._markers.attempt_at(record) if record.headers else 1,
            id=self._markers.id_of(record.topic, record.partition, record.offset),
            deadline=deadline,
        )

    def _go_back(self, fetched: Mapping[Any, Sequence[Any]]) -> None:
        """Seek back to these records, so that a later commit does not skip them."""
        from aiokafka import errors  # noqa: PLC0415 - loaded already

        for place, records in fetched.items():
            with suppress(errors.IllegalStateError):  # another consumer has the partition now
                self._consumer.seek(place, records[0].offset)
