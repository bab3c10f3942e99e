"""Checks of Kafka from Python before Spark starts: whether a command can do its work, and has work to do.

They take tenths of a second. Where aiokafka is not installed, as is common under spark-submit, they are left out.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from aiokafka.structs import ConsumerRecord

from pipeline.errors import KafkaUnreachable, TopicMissing
from pipeline.kafka import Offsets
from pipeline.login import python_options
from punctual.bounded_fetch import bounded

_TIMEOUT_MS = 5_000
_READ_S = 10.0

_T = TypeVar("_T")


class Look:
    """Reads the present state of a cluster, for one block."""

    def __init__(self, bootstrap: str, runner: asyncio.Runner) -> None:
        """Read from the `bootstrap` servers on the event loop of `runner`; connect only when a method is called."""
        self._servers, self._runner = bootstrap, runner
        self._options = {"bootstrap_servers": bootstrap, "request_timeout_ms": _TIMEOUT_MS, **python_options()}

    def cluster_id(self, *topics: str) -> str:
        """Return the id of the cluster if it has all these topics. Raises KafkaUnreachable, TopicMissing."""
        return self._run(self._cluster_id(topics))

    async def _cluster_id(self, topics: tuple[str, ...]) -> str:
        admin = AIOKafkaAdminClient(**self._options)
        try:
            await admin.start()
            described = await admin.describe_topics(list(topics)) if topics else []
            for each in described:
                _assure_there(each["topic"], each["error_code"], self._servers)
            return str((await admin.describe_cluster())["cluster_id"])
        finally:
            await admin.close()

    def ends(self, topic: str) -> Offsets:
        """Return the end offsets of a topic for readers of committed records. Raises KafkaUnreachable."""
        return self._run(self._consumed(self._ends, topic))

    async def _ends(self, consumer: AIOKafkaConsumer) -> Offsets:
        return {place.partition: end for place, end in (await consumer.end_offsets(consumer.assignment())).items()}

    def spans(self, topic: str) -> tuple[Offsets, Offsets]:
        """Return the first offsets that a topic still has, and its end offsets. Raises KafkaUnreachable."""
        spans: tuple[Offsets, Offsets] = self._run(self._consumed(self._spans, topic))
        return spans

    async def _spans(self, consumer: AIOKafkaConsumer) -> tuple[Offsets, Offsets]:
        begins = await consumer.beginning_offsets(consumer.assignment())
        return {place.partition: begin for place, begin in begins.items()}, await self._ends(consumer)

    def records(self, topic: str, begin: Offsets, end: Offsets) -> list[ConsumerRecord]:
        """Return the committed records of a topic from `begin` up to, not including, `end`. Raises KafkaUnreachable."""
        return self._run(self._consumed(self._records, topic, begin, end))

    async def _records(self, consumer: AIOKafkaConsumer, begin: Offsets, end: Offsets) -> list[ConsumerRecord]:
        unread = set(consumer.assignment())
        for place in unread:
            consumer.seek(place, begin.get(place.partition, 0))
        records: list[ConsumerRecord] = []
        while unread:
            for place, batch in (await consumer.getmany(*unread, timeout_ms=100)).items():
                records += [record for record in batch if record.offset < end[place.partition]]
            unread = {place for place in unread if await consumer.position(place) < end[place.partition]}
        return records

    async def _consumed(self, read: Any, topic: str, *arguments: Any) -> Any:
        options = {"isolation_level": "read_committed", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        consumer = bounded(
            AIOKafkaConsumer(topic, **options, **self._options)
        )  # it has no group, and so all partitions
        try:
            await consumer.start()
            if not consumer.assignment():
                raise _missing(topic, self._servers)
            return await asyncio.wait_for(read(consumer, *arguments), _READ_S)
        finally:
            await consumer.stop()

    def _run(self, request: Coroutine[Any, Any, _T]) -> _T:
        try:
            return self._runner.run(request)
        except (KafkaError, OSError, TimeoutError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise KafkaUnreachable(
                f"Kafka at {self._servers} does not answer: {reason}. Check KAFKA_BOOTSTRAP_SERVERS or --bootstrap."
            ) from error


def _assure_there(topic: str, code: int, servers: str) -> None:
    if code == UnknownTopicOrPartitionError.errno:
        raise _missing(topic, servers)
    if code:
        raise for_code(code)(topic)


def _missing(topic: str, servers: str) -> TopicMissing:
    return TopicMissing(
        f"there is no topic {topic} on {servers}. Workers create the topics (…-cold: only with DELAY_HORIZON). Check "
        f"DELAY_APP_ID or --app-id."
    )


@contextmanager
def looking(bootstrap: str) -> Iterator[Look]:
    """Return a reader of a cluster's state for a block."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it also raises the errors that it logs
    with asyncio.Runner() as runner:
        yield Look(bootstrap, runner)
