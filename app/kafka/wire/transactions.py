"""The two requests of each transaction to its coordinator: to add partitions, and to end it. Version 0 of both."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final

from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest

from app.kafka.wire.codec import INT32, Codec, text, text_at

_PRODUCER = struct.Struct(">qh")
_END = struct.Struct(">qh?")
#: Number of the request, throttle time, error code.
_ENDED = struct.Struct(">4xih")
_CODE = struct.Struct(">ih")
_ERRORS = 8


@dataclass(slots=True)
class Added:
    """An answer: an error code for each partition of each topic."""

    errors: list[tuple[str, list[tuple[int, int]]]]

    API_VERSION: ClassVar[int] = 0


@dataclass(slots=True)
class Ended:
    """An answer: an error code."""

    throttle_time_ms: int
    error_code: int

    API_VERSION: ClassVar[int] = 0


def _pack_add(request: AddPartitionsToTxnRequest) -> list[bytes]:
    topics = request._topics  # noqa: SLF001 - it has no other names for these
    parts = [
        text(request._transactional_id),  # noqa: SLF001 - the same
        _PRODUCER.pack(request._producer_id, request._producer_epoch),  # noqa: SLF001 - the same
        INT32.pack(len(topics)),
    ]
    for topic, partitions in topics:
        parts += (text(topic), struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
    return parts


def _unpack_added(frame: bytes) -> Added:
    errors = list[tuple[str, list[tuple[int, int]]]]()
    (count,), at = INT32.unpack_from(frame, _ERRORS), _ERRORS + INT32.size
    for _ in range(count):
        topic, at = text_at(frame, at)
        (partitions,), at = INT32.unpack_from(frame, at), at + INT32.size
        end = at + partitions * _CODE.size
        errors.append((topic, list(_CODE.iter_unpack(frame[at:end]))))
        at = end
    return Added(errors)


def _pack_end(request: EndTxnRequest) -> list[bytes]:
    producer, epoch = request._producer_id, request._producer_epoch  # noqa: SLF001 - it has no other names for these
    ending = _END.pack(producer, epoch, request._transaction_result)  # noqa: SLF001 - the same
    return [text(request._transactional_id), ending]  # noqa: SLF001 - the same


def _unpack_ended(frame: bytes) -> Ended:
    return Ended(*_ENDED.unpack_from(frame))


ADD: Final = Codec(AddPartitionsToTxnRequest.API_KEY, Added.API_VERSION, _pack_add, _unpack_added)
END: Final = Codec(EndTxnRequest.API_KEY, Ended.API_VERSION, _pack_end, _unpack_ended)
