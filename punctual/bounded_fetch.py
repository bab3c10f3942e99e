"""Kafka consumers that unpack bounded batches only (punctual/batches.py), in any program.

aiokafka unpacks whole batches, and as many as a call asks for. So each broker's answer is checked first: a batch that
is too large loses its records, as in compaction, and the answer is cut off at the maximum size.
"""

import asyncio
import logging
import struct
from typing import Any, Final

from aiokafka.record.util import calc_crc32c

from punctual import batches

log = logging.getLogger(__name__)

_FETCH: Final = 1
#: The size up to which batches are unpacked on the event loop, which takes about a millisecond.
_AT_ONCE: Final = 1 << 20
#: Offsets in a batch: its length, its checksum, the checked bytes, its attributes and its number of records.
_LENGTH, _CRC, _CHECKED, _CODEC, _COUNT = 8, 17, 21, 22, 57
_OFFSET, _NUMBER, _NEW_FORMAT, _MAGIC = struct.Struct(">q"), struct.Struct(">I"), 2, 16


def bounded(consumer: Any) -> Any:
    """Return an aiokafka consumer, not started yet, that skips batches that are too large."""
    client = consumer._client  # noqa: SLF001 - it has no public hook for answers
    send = client.send

    async def look_through(*arguments: Any, **options: Any) -> Any:
        answer = await send(*arguments, **options)
        if getattr(answer, "API_KEY", None) == _FETCH:
            answer.topics = [
                (topic, [(*one[:-1], await _within_bounds(topic, one[0], one[-1])) for one in partitions])
                for topic, partitions in answer.topics
            ]
        return answer

    client.send = look_through
    return consumer


async def _within_bounds(topic: str, partition: int, raw: bytes | None) -> bytes | None:
    """Return the bytes of a partition without too large batches, and at most as many as can be unpacked at once."""
    kept, left = list[bytes | memoryview](), batches.MAX_BYTES
    for batch in batches.batches(raw or b""):
        if batch[_MAGIC] < _NEW_FORMAT:  # no producer has written one since 0.11, and it cannot be emptied
            kept.append(batch)
            continue
        try:
            size = await _size(batch)
        except batches.UnreadableError as error:
            (first,) = _OFFSET.unpack_from(batch)
            log.warning("%s-%d: the batch at offset %d is passed over: %s", topic, partition, first, error)
            kept.append(_emptied(batch))
            continue
        if kept and size > left:
            break  # it is fetched again after the batches before it
        kept.append(batch)
        left -= size
    return b"".join(kept) if kept else raw


async def _size(batch: memoryview) -> int:
    """Return the unpacked size of a batch. Raises what `batches.plain` and `batches.check_headers` raise."""
    try:
        plain = batches.plain(batch, _AT_ONCE)
    except batches.TooManyRecordsError:
        raise
    except batches.TooLargeError:
        plain = await asyncio.to_thread(batches.plain, batch)
    batches.check_headers(plain)
    return len(plain)


def _emptied(batch: memoryview) -> bytes:
    """Return a batch without its records, with the same offsets."""
    head = bytearray(batch[: batches.BODY])
    head[_CODEC] &= ~0x07
    _NUMBER.pack_into(head, _COUNT, 0)
    _NUMBER.pack_into(head, _LENGTH, len(head) - _LENGTH - _NUMBER.size)
    _NUMBER.pack_into(head, _CRC, calc_crc32c(bytes(head[_CHECKED:])))
    return bytes(head)
