"""Record batches as brokers store them, unpacked within bounds.

A broker limits only the packed size of a batch. Unpacked, 30 KB of zstd can be a gigabyte, and a few KB can be a
million records. A producer chooses both, so every reader of batches needs limits of its own.
"""

import mmap
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import cramjam

#: The maximum unpacked bytes of a compressed batch. Brokers take batches of 1 MiB unless their max.message.bytes says
#: otherwise, and JSON shrinks to between a fifth and a twentieth: 32 times that is generous, and a worker has room for
#: several such batches at once.
MAX_BYTES: Final = 32 << 20
#: The maximum records in a batch: ten times what librdkafka puts into a batch, and about as many of the shortest
#: requests as fit into 1 MiB when they shrink to a fifth.
MAX_RECORDS: Final = 100_000
#: The maximum headers of a record: each takes two bytes in a batch, and a hundred once it is read.
#: kernel/src/section.rs has the same number.
MAX_HEADERS: Final = 1_000

#: Offsets in a batch: its records, the number of records, the format and the attributes.
BODY, _COUNT, _MAGIC, _ATTRIBUTES = 61, 57, 16, 22
_VARINT_BITS: Final = 63
_INT, _NEW_FORMAT, _CODEC = struct.Struct(">i"), 2, 0x07
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
#: Offsets in a message of older formats: the attributes, and the key's length without and with a timestamp.
_OLD_ATTRIBUTES, _OLD_KEY = 17, (18, 26)

#: zlib's window with a header and a trailer. Producers write one member; each further member costs a copy of the rest.
_GZIP_WINDOW, _GZIP_START, _MEMBERS = 31, b"\x1f\x8b", 64
#: The head that snappy-java writes before its blocks, each after its length; other clients write one bare block.
_XERIAL, _XERIAL_HEAD = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01", 16
#: Memory for this many bytes is kept, which is enough for most batches, instead of being allocated each time.
_ROOM_BYTES: Final = 1 << 20


class UnreadableError(Exception):
    """The bytes of a batch do not match its head."""


class TooLargeError(UnreadableError):
    """A batch has more unpacked bytes, or more records, than readers hold at once."""


class TooManyRecordsError(TooLargeError):
    """The head of a batch has a too large number of records."""


class TooManyHeadersError(TooLargeError):
    """A record of a batch has too many headers."""


class _Room(threading.local):
    """Memory for unpacking, one per thread, because the worker's consumer reads in a thread of its own."""

    def __init__(self) -> None:
        self.bytes = bytearray(_ROOM_BYTES)


_room = _Room()


def batches(raw: bytes) -> Iterator[memoryview]:
    """Yield the complete batches of a fetch."""
    view, begin = memoryview(raw), 0
    while begin + 12 <= len(view):
        end = begin + 12 + _INT.unpack_from(view, begin + 8)[0]
        if not begin + 12 < end <= len(view):
            return
        yield view[begin:end]
        begin = end


def codec_of(raw: memoryview) -> int:
    """Return the number of a batch's compression codec, 0 if it is not compressed."""
    return raw[_ATTRIBUTES if raw[_MAGIC] >= _NEW_FORMAT else _OLD_ATTRIBUTES] & _CODEC


def count_of(raw: memoryview) -> int:
    """Return the number of records in the head of a batch in message format 2."""
    count: int = _INT.unpack_from(raw, _COUNT)[0]
    return count


def body(raw: memoryview, most: int = MAX_BYTES) -> bytes:
    """Return the decompressed bytes of the records of a batch in message format 2.

    Raises TooLargeError for more than `most` bytes or MAX_RECORDS records, UnreadableError for corrupt bytes.
    """
    count, codec = count_of(raw), codec_of(raw)
    if count > MAX_RECORDS:
        raise TooManyRecordsError(f"it has {count:,} records, more than {MAX_RECORDS:,}")
    if not codec or not count:  # after compaction there may be only the head, which still names a codec
        return bytes(raw[BODY:])
    return unpack(codec, raw[BODY:], most)


def plain(raw: memoryview, most: int = MAX_BYTES) -> bytes:
    """Return an uncompressed batch with the same records; its checksum is not updated. Raises what `body` raises.

    In formats before 2, a batch is one message around others; it is checked, and returned unchanged.
    """
    if raw[_MAGIC] < _NEW_FORMAT:
        _look_into(raw, most)
        return bytes(raw)
    unpacked = body(raw, most)
    if not codec_of(raw):
        return bytes(raw)
    head = bytearray(raw[:BODY])
    head[_ATTRIBUTES] &= ~_CODEC
    return bytes(head) + unpacked


def check_headers(raw: bytes) -> None:
    """Raise TooManyHeadersError if a record of an uncompressed batch has more than MAX_HEADERS headers.

    Records that are too short for that many are skipped. Bytes that are not records are not an error here.
    """
    if raw[_MAGIC] != _NEW_FORMAT:
        return
    at = BODY
    try:
        for _ in range(count_of(memoryview(raw))):
            length, at = _varint(raw, at)
            if length > 2 * MAX_HEADERS and _headers_of(raw, at) > MAX_HEADERS:
                raise TooManyHeadersError(f"a record has more than {MAX_HEADERS} headers")
            at += max(length, 0)
    except IndexError:
        return


def _headers_of(raw: bytes, at: int) -> int:
    """Return the number of headers of the record whose attributes are at offset `at`."""
    _, at = _varint(raw, at + 1)
    _, at = _varint(raw, at)
    for _ in range(2):  # its key and its value
        length, at = _varint(raw, at)
        at += max(length, 0)
    return _varint(raw, at)[0]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number at offset `at`, in the zigzag encoding of Protocol Buffers, and the offset after it."""
    number, shift = 0, 0
    while (byte := raw[at]) & 0x80 and shift < _VARINT_BITS:
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    number |= byte << shift
    return (number >> 1) ^ -(number & 1), at + 1


def _look_into(raw: memoryview, most: int) -> None:
    """Raise TooLargeError for a message of an old format that contains more than `most` bytes of others."""
    codec = codec_of(raw)
    if not codec:
        return
    begin = _OLD_KEY[raw[_MAGIC]]
    begin += 4 + max(0, _INT.unpack_from(raw, begin)[0]) + 4
    try:
        unpack(codec, raw[begin:], most)
    except TooLargeError:
        raise
    except UnreadableError:  # Kafka's client knows the framing of old LZ4, and reports the error
        return


def unpack(codec: int, packed: memoryview, most: int) -> bytes:
    """Return the decompressed bytes.

    Raises TooLargeError for more than `most` bytes, UnreadableError for bytes that do not fit the codec.
    """
    if codec == _GZIP:
        return _gunzip(packed, most)
    if codec == _SNAPPY and bytes(packed[:_XERIAL_HEAD]) == _XERIAL:
        return _unsnap_blocks(packed[_XERIAL_HEAD:], most)
    if codec == _SNAPPY:
        return _unsnap(packed, most)
    if codec not in (_LZ4, _ZSTD):
        raise UnreadableError(f"there is no codec {codec}")
    decompress = cramjam.lz4.decompress_into if codec == _LZ4 else cramjam.zstd.decompress_into
    kept = memoryview(_room.bytes)[:most]
    size = _into(decompress, packed, kept)
    if size is not None:
        return bytes(kept[:size])
    if most <= _ROOM_BYTES:
        raise _too_large(most)
    with mmap.mmap(-1, most) as room:  # only pages that are written take memory, and none is cleared before
        size = _into(decompress, packed, room)
        if size is None:
            raise _too_large(most)
        return room[:size]


def _into(decompress: Callable[[Any, Any], int], packed: memoryview, room: Any) -> int | None:
    """Decompress into `room`, and return the number of bytes; None if the room is too small."""
    try:
        return decompress(packed, room)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):  # the message of Rust's io::Write without room
            return None
        raise UnreadableError(str(error)) from error


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"it has more than {most:,} bytes unpacked")


def _gunzip(packed: memoryview, most: int) -> bytes:
    left, parts = most, list[bytes]()
    rest: Any = packed
    for _ in range(_MEMBERS):
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        try:
            part = inflater.decompress(rest, left + 1)
        except zlib.error as error:
            raise UnreadableError(str(error)) from error
        left -= len(part)
        if left < 0:
            raise _too_large(most)
        if not inflater.eof:
            raise UnreadableError("its gzip stream ends early")
        parts.append(part)
        rest = inflater.unused_data
        if not rest.startswith(_GZIP_START):  # Java's reader, which brokers use, ignores bytes after the last member
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise UnreadableError(f"its gzip stream has more than {_MEMBERS} members")


def _unsnap(packed: memoryview, most: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(packed) > most:  # the stated length is right, or the bytes are corrupt
            raise _too_large(most)
        return bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise UnreadableError(str(error)) from error


def _unsnap_blocks(packed: memoryview, most: int) -> bytes:
    left, parts, begin = most, list[bytes](), 0
    while begin < len(packed):
        if len(packed) - begin < _INT.size:
            raise UnreadableError("its snappy stream ends early")
        (size,) = _INT.unpack_from(packed, begin)
        begin += _INT.size
        if not 0 <= size <= len(packed) - begin:
            raise UnreadableError("a block of its snappy stream is not whole")
        try:
            parts.append(_unsnap(packed[begin : begin + size], left))
        except TooLargeError:
            raise _too_large(most) from None
        left, begin = left - len(parts[-1]), begin + size
    return b"".join(parts)
