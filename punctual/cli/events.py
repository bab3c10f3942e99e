"""Reads the events of an installation from Kafka (docs/reference/records.md#events)."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from punctual.cli.errors import CommandError, NotAllowed, NotFound, Unreachable
from punctual.cli.kafka import security, told_errors
from punctual.cli.parser import Options

_POLL_MS: Final = 500
_LOOK_S: Final = 0.05
_LOOKS: Final = 200

Events = list[dict[str, Any]]


async def follow(options: Options) -> AsyncIterator[Events]:
    """Yield events in groups as they arrive; within a group they are sorted by time.

    Starts at `since`, or now; with `no_follow` it ends at the topic's present end. Each event has its `offset`, as
    `topic-partition-offset`. Raises a CommandError.
    """
    topic, servers = f"{options.app_id}-events", options.bootstrap
    consumer = await begun(servers, topic, options.since)
    try:
        with _sentences(servers, topic):
            ends = await consumer.end_offsets(consumer.assignment()) if options.no_follow else None
            while ends is None or not await _has_reached(consumer, ends):
                fetched = await consumer.getmany(timeout_ms=_POLL_MS)
                events = [event_of(record) for records in fetched.values() for record in records]
                if events:
                    yield sorted(events, key=lambda event: int(event["at"]))
    finally:
        await consumer.stop()


async def begun(servers: str, topic: str, since_ms: int | None = None) -> Any:
    """Return a consumer that reads a topic of events from a time on, or from now on. Raises a CommandError."""
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - only who connects pays for it

    from punctual.bounded_fetch import bounded  # noqa: PLC0415 - the same

    consumer_options = {"client_id": "punctual", "isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with told_errors():
        consumer = bounded(
            AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, **consumer_options, **security())
        )
    try:
        with _sentences(servers, topic):
            with told_errors():
                await consumer.start()
            await _begin(consumer, await _places(consumer, topic), since_ms)
    except BaseException:
        await consumer.stop()
        raise
    return consumer


@contextmanager
def _sentences(servers: str, topic: str) -> Iterator[None]:
    """Turn errors of Kafka's client into CommandErrors that say why the topic cannot be read."""
    from aiokafka import errors  # noqa: PLC0415 - only who connects pays for it

    try:
        yield
    except (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError) as error:
        raise NotAllowed(
            f"this user has no permission to read {topic}: grant it READ and DESCRIBE on the topic"
        ) from error
    except (errors.KafkaError, OSError) as error:
        raise Unreachable(f"no broker answers at {servers} ({error}): check --bootstrap and KAFKA_…") from error


async def _places(consumer: Any, topic: str) -> list[Any]:
    """Return the partitions of a topic, without creating it. Raises NotFound."""
    if topic not in await consumer.topics():
        raise NotFound(
            f"the topic {topic} does not exist, or this user has no permission to see it: give the "
            "--app-id of the installation"
        )
    consumer.subscribe([topic])
    for _ in range(_LOOKS):
        if consumer.assignment():
            return sorted(consumer.assignment())
        await asyncio.sleep(_LOOK_S)
    raise Unreachable(f"the brokers do not return the partitions of {topic}: try again")


async def _begin(consumer: Any, places: Collection[Any], since_ms: int | None) -> None:
    """Seek to offsets, because aiokafka's seek_to_end can lose to the reset at the assignment.

    aiokafka confuses the answer to that reset, the earliest offset, with the answer to a later reset to the end
    (aiokafka 0.14, Fetcher._update_fetch_positions).
    """
    offsets = {} if since_ms is None else await consumer.offsets_for_times(dict.fromkeys(places, since_ms))
    begins = {place: at.offset for place, at in offsets.items() if at is not None}
    ends = await consumer.end_offsets([place for place in places if place not in begins])
    for place, offset in {**begins, **ends}.items():
        consumer.seek(place, offset)


async def _has_reached(consumer: Any, ends: dict[Any, int]) -> bool:
    return all([await consumer.position(place) >= end for place, end in ends.items()])


def event_of(record: Any) -> dict[str, Any]:
    """Return an event with its `offset`. Raises CommandError if the record is not an event."""
    try:
        event = msgspec.json.decode(record.value or b"", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = f"{record.topic}-{record.partition}-{record.offset}"
        raise CommandError(
            f"the record {place} is not an event ({error}): check which other programs write to that topic"
        ) from error
    return {**event, "offset": f"{record.topic}-{record.partition}-{record.offset}"}
