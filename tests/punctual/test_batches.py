"""Batches are unpacked as Kafka's clients pack them, and no further than readers have room for."""

import os
import struct
import tracemalloc

import pytest
from aiokafka import codec as aiokafkas

from punctual import batches
from punctual.batches import TooLargeError, TooManyRecordsError, UnreadableError

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_KINDS = [
    pytest.param(_GZIP, aiokafkas.gzip_encode, id="gzip"),
    pytest.param(_SNAPPY, aiokafkas.snappy_encode, id="snappy in blocks"),
    pytest.param(_SNAPPY, lambda data: aiokafkas.snappy_encode(data, xerial_compatible=False), id="snappy"),
    pytest.param(_LZ4, aiokafkas.lz4_encode, id="lz4"),
    pytest.param(_ZSTD, aiokafkas.zstd_encode, id="zstd"),
]
_CONTENTS = [
    pytest.param(b"a", id="a byte"),
    pytest.param(os.urandom(70_000), id="noise"),
    pytest.param(b'{"id": 1234}' * 9_000, id="text"),
    pytest.param(bytes(3 << 20), id="more than is unpacked as a rule"),
]


@pytest.mark.parametrize("content", _CONTENTS)
@pytest.mark.parametrize(("codec", "pack"), _KINDS)
def test_a_batch_of_the_maximum_size_is_unpacked_and_a_larger_one_is_not(
    codec: int, pack: object, content: bytes
) -> None:
    packed = memoryview(bytes(pack(content)))  # type: ignore[operator]

    assert batches.unpack(codec, packed, batches.MAX_BYTES) == content
    assert batches.unpack(codec, packed, len(content)) == content
    with pytest.raises(TooLargeError):
        batches.unpack(codec, packed, len(content) - 1)


@pytest.mark.parametrize(("codec", "pack"), _KINDS)
def test_bytes_that_are_broken_are_unreadable(codec: int, pack: object) -> None:
    packed = bytes(pack(b'{"id": 1234}' * 9_000))  # type: ignore[operator]

    for broken in (packed[:-6], packed[: len(packed) // 2], b"\xff" * 40, b"\xff", packed[:18] + b"\xff" * 20):
        with pytest.raises(UnreadableError):
            batches.unpack(codec, memoryview(broken), batches.MAX_BYTES)


def test_gzip_may_have_several_members_and_other_bytes_after_them() -> None:
    """Java's reader passes over it, and brokers with it."""
    member = aiokafkas.gzip_encode(b"ab")

    assert batches.unpack(_GZIP, memoryview(member * 3 + b"rest"), 100) == b"ababab"
    with pytest.raises(TooLargeError):
        batches.unpack(_GZIP, memoryview(member * 3), 5)
    with pytest.raises(UnreadableError):  # each costs a copy of all that follow
        batches.unpack(_GZIP, memoryview(aiokafkas.gzip_encode(b"") * 50_000), 5)


def test_a_batch_that_is_too_large_is_not_unpacked_to_its_end() -> None:
    packed = memoryview(aiokafkas.gzip_encode(bytes(64 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            batches.unpack(_GZIP, packed, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 8 << 20


def test_a_codec_that_does_not_exist_is_unreadable() -> None:
    with pytest.raises(UnreadableError, match="no codec 7"):
        batches.unpack(7, memoryview(b"x"), 10)


def _batch(codec: int, count: int, body: bytes) -> memoryview:
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(body), -1, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count)
    return memoryview(head + body)


def test_too_many_records_are_not_unpacked_at_all() -> None:
    for codec in (0, _ZSTD):
        with pytest.raises(TooManyRecordsError, match="1,000,000 records"):
            batches.body(_batch(codec, 1_000_000, b"no codec's"))


def test_a_plain_batch_has_the_same_head_without_its_codec() -> None:
    content = b"records"
    raw = _batch(_ZSTD, 3, bytes(aiokafkas.zstd_encode(content)))

    assert (
        batches.plain(raw) == bytes(_batch(0, 3, content))[:8] + bytes(raw)[8:22] + b"\0" + bytes(raw)[23:61] + content
    )
    uncompressed = _batch(0, 3, content)
    assert batches.plain(uncompressed) == bytes(uncompressed)


def test_what_compaction_has_left_of_a_compressed_batch_is_empty() -> None:
    assert batches.body(_batch(_ZSTD, 0, b"")) == b""


def test_a_fetch_may_end_within_a_batch() -> None:
    one, two = bytes(_batch(0, 1, b"one")), bytes(_batch(0, 1, b"two"))

    assert [*map(bytes, batches.batches(one + two + one[:-1]))] == [one, two]
    assert not list(batches.batches(one[:11]))
    assert not list(batches.batches(b"\xff" * 40))


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_hold_no_more_either(magic: int) -> None:
    packed = aiokafkas.gzip_encode(bytes(1_000))
    stamp = b"" if magic == 0 else bytes(8)
    inner = (
        struct.pack(">IbB", 0, magic, _GZIP) + stamp + struct.pack(">i", -1) + struct.pack(">i", len(packed)) + packed
    )
    raw = memoryview(struct.pack(">qi", 0, len(inner)) + inner)

    assert batches.plain(raw, 1_000) == bytes(raw)
    with pytest.raises(TooLargeError):
        batches.plain(raw, 999)
