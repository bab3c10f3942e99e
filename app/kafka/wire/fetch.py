"""Fetch, version 11: records of partitions from an offset on."""

import struct
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from aiokafka.protocol.fetch import FetchRequest

from app.kafka.wire.codec import INT32, Codec, text, text_at

#: No replica; maximum wait, minimum and maximum bytes, isolation level; no session, which is number 0 and epoch -1.
_HEAD = struct.Struct(">iiiibiii")
_REPLICA, _SESSION, _EPOCH, _UNKNOWN = -1, 0, -1, -1
#: Partition, its leader's epoch, offset, first offset of the log, maximum bytes.
_WANTED = struct.Struct(">iiqqi")
_NOTHING_FORGOTTEN = bytes(4)
#: Partition, error code, high watermark, last stable offset, first offset; then the number of aborted transactions.
_FOUND = struct.Struct(">ihqqqi")
_ABORTED = struct.Struct(">qq")
#: The replica to read from, and the length of the records.
_RECORDS = struct.Struct(">ii")
_HEAD_OF_ANSWER = struct.Struct(">4xihii")


@dataclass(slots=True)
class FetchResponse:
    """An answer with the attributes that callers use of aiokafka's class of this version."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[str, list[tuple[Any, ...]]]]

    API_KEY: ClassVar[int] = FetchRequest.API_KEY
    API_VERSION: ClassVar[int] = 11


def _pack(request: FetchRequest) -> list[bytes]:
    topics = request.topics
    parts = [
        _HEAD.pack(
            _REPLICA,
            request._max_wait_ms,  # noqa: SLF001 - it has no other names for these
            request._min_bytes,  # noqa: SLF001 - the same
            request._max_bytes,  # noqa: SLF001 - the same
            request._isolation_level,  # noqa: SLF001 - the same
            _SESSION,
            _EPOCH,
            len(topics),
        )
    ]
    for topic, partitions in topics:
        parts += (text(topic), INT32.pack(len(partitions)))
        parts += [_WANTED.pack(number, _UNKNOWN, offset, _UNKNOWN, most) for number, offset, most in partitions]
    parts += (_NOTHING_FORGOTTEN, text(request._rack_id))  # noqa: SLF001 - the same
    return parts


def _unpack(frame: bytes) -> FetchResponse:
    throttle_time_ms, error_code, session, count = _HEAD_OF_ANSWER.unpack_from(frame)
    at, topics = _HEAD_OF_ANSWER.size, list[tuple[str, list[tuple[Any, ...]]]]()
    for _ in range(count):
        topic, at = text_at(frame, at)
        (partitions,), at = INT32.unpack_from(frame, at), at + INT32.size
        entries = list[tuple[Any, ...]]()
        for _ in range(partitions):
            partition, at = _partition(frame, at)
            entries.append(partition)
        topics.append((topic, entries))
    return FetchResponse(throttle_time_ms, error_code, session, topics)


def _partition(frame: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    """Return the partition that begins at an offset of the frame, and the offset after it."""
    *head, count = _FOUND.unpack_from(frame, at)
    at += _FOUND.size
    aborted = None
    if count >= 0:
        end = at + count * _ABORTED.size
        aborted, at = list(_ABORTED.iter_unpack(frame[at:end])), end
    replica, size = _RECORDS.unpack_from(frame, at)
    at += _RECORDS.size
    if size < 0:
        return (*head, aborted, replica, None), at
    return (*head, aborted, replica, frame[at : at + size]), at + size


FETCH: Final = Codec(FetchRequest.API_KEY, FetchResponse.API_VERSION, _pack, _unpack)
