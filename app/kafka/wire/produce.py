"""Produce, version 7: batches for several partitions, and their results."""

import struct
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from aiokafka.protocol.produce import ProduceRequest

from app.kafka.wire.codec import INT32, Codec, text, text_at

_HEAD, _TWO = struct.Struct(">hii"), struct.Struct(">ii")
#: Partition, error code, offset, append time, first offset of the log.
_TAKEN = struct.Struct(">ihqqq")
_CORRELATION = 4


@dataclass(slots=True)
class Produced:
    """An answer: for each topic its partitions, with error code, offset, append time and the log's first offset."""

    topics: list[tuple[str, list[tuple[int, int, int, int, int]]]]

    API_VERSION: ClassVar[int] = 7


def _pack(request: ProduceRequest) -> list[bytes]:
    topics = request._topics  # noqa: SLF001 - it has no other names for these
    head = _HEAD.pack(request.required_acks, request._timeout, len(topics))  # noqa: SLF001 - the same
    parts = [text(request._transactional_id), head]  # noqa: SLF001 - the same
    for topic, batches in topics:
        parts += (text(topic), INT32.pack(len(batches)))
        for partition, raw in batches:
            parts += (_TWO.pack(partition, len(raw)), raw)
    return parts


def _unpack(frame: bytes) -> Produced:
    topics = list[tuple[str, list[tuple[int, int, int, int, int]]]]()
    (count,), at = INT32.unpack_from(frame, _CORRELATION), _CORRELATION + INT32.size
    for _ in range(count):
        topic, at = text_at(frame, at)
        (partitions,), at = INT32.unpack_from(frame, at), at + INT32.size
        end = at + partitions * _TAKEN.size
        answers: Any = list(_TAKEN.iter_unpack(frame[at:end]))
        topics.append((topic, answers))
        at = end
    return Produced(topics)


PRODUCE: Final = Codec(ProduceRequest.API_KEY, Produced.API_VERSION, _pack, _unpack)
