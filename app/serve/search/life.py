"""The history of an ID: its events, read backwards from the newest one, within a time limit."""

import asyncio
from typing import Any

import aiokafka.errors
import msgspec

from app.base.process.skipped_records import decoded
from app.engine.engine import Engine
from app.kafka.metadata.reader import PartitionReader
from app.serve.search.peers import PeerSilent
from punctual.contract.events import decode

#: The number of events in a part, the maximum parts, and the maximum seconds. Fetches are small, because unpacking a
#: large one would delay deliveries.
_PART, _PARTS, _LONGEST_S = 10_000, 10, 3.0
_FETCH_BYTES, _CHUNK = 128 * 1024, 500


class Life(msgspec.Struct, frozen=True):
    """Events of an ID, oldest first; events before `looked_back_to_ms` (epoch ms) were not scanned, if it is set."""

    life: list[dict[str, Any]]
    looked_back_to_ms: int | None


async def life_of(engine: Engine, id_: str, home: int) -> Life:
    """Return the events of an ID and of its occurrences; `home` is its home partition. Raises PeerSilent."""
    events: list[dict[str, Any]] = []
    looked_back_ms: int | None = engine.clock.wall_ms()
    try:
        async with asyncio.timeout(_LONGEST_S):
            reader = _reader(engine, home)
            begin, end = await reader.begin(), await reader.end()
            for _ in range(_PARTS):
                start = max(begin, end - _PART)
                part, oldest_ms = await _part(engine, id_, home, start, end)
                events, looked_back_ms, end = part + events, oldest_ms or looked_back_ms, start
                if start == begin:
                    looked_back_ms = None
                    break
    except TimeoutError:
        pass  # the events until now are worth showing
    except aiokafka.errors.KafkaError as error:
        raise PeerSilent(f"the brokers do not return the events: {error}") from error
    return Life(events, looked_back_ms)


async def _part(engine: Engine, id_: str, home: int, start: int, end: int) -> tuple[list[dict[str, Any]], int | None]:
    """Return the events of an ID between two offsets, and when the first event of any ID there was written."""
    key, events, first_ms, topic = id_.encode(), list[dict[str, Any]](), None, engine.settings.topics.events_topic
    async for record in _reader(engine, home, start).up_to(end, _CHUNK):
        first_ms = record.timestamp_ms if first_ms is None else first_ms
        if record.offset >= end or not _is_of(key, record.key or b""):
            continue
        event = decoded(topic, home, record.offset, record.value, decode)
        if event is not None:
            events.append({**event, "offset": f"{topic}-{home}-{record.offset}"})
    return events, first_ms


def _reader(engine: Engine, home: int, offset: int = 0) -> PartitionReader:
    topic = engine.settings.topics.events_topic
    return PartitionReader(engine.cluster, topic, home, offset, fetch_bytes=_FETCH_BYTES)


def _is_of(id_: bytes, name: bytes) -> bool:
    """Return whether an event's name is the ID, or of an occurrence, `<id>@<due>`; `a@b` is another ID."""
    return name == id_ or (name.startswith(id_ + b"@") and name[len(id_) + 1 :].isdigit())
