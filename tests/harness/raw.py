"""Records with header names that are not UTF-8: brokers accept them, and clients in other languages can send them."""

import asyncio
import struct
import time
from typing import Any

from aiokafka.record.util import calc_crc32c

from app.kafka import Batch, Cluster, Sender

HOLE, _BYTES = b"a-name-that-is-texts", b"\xffname-that-is-not-so"
assert len(HOLE) == len(_BYTES)
_CRC_AT, _CHECKED_FROM = 17, 21  # of a record batch, message format 2


class RawBatch(Batch):
    """A batch with a header name that no Python client would send, in place of HOLE."""

    def build(self, *numbers: Any) -> bytes:
        """Return the bytes of the batch."""
        raw = bytearray(super().build(*numbers).replace(HOLE, _BYTES))
        raw[_CRC_AT:_CHECKED_FROM] = struct.pack(">I", calc_crc32c(bytes(raw[_CHECKED_FROM:])))
        return bytes(raw)


def send_nameless(bootstrap: str, topic: str, partition: int, to: str, count: int) -> None:
    """Send requests that each have a header whose name is not UTF-8."""
    batch = RawBatch()
    for number in range(count):
        headers: list[tuple[str, bytes | None]] = [("delay-to", to.encode()), ("delay-after", b"0")]
        assert batch.append(0, b"nameless", b"%d" % number, [*headers, (HOLE.decode(), b"\x00")])
    asyncio.run(send_batches(bootstrap, topic, partition, batch))


class PackedBatch(Batch):
    """A batch of `count` records whose bytes are packed already."""

    __slots__ = ("_codec", "_count", "_packed")

    def __init__(self, packed: bytes, count: int, codec: int) -> None:
        super().__init__()
        assert self.append(0, None, None)
        self._packed, self._count, self._codec = packed, count, codec

    def build(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        """Return the bytes of the batch."""
        now_ms = time.time_ns() // 1_000_000
        head = struct.pack(
            ">hiqqqhii",
            self._codec, self._count - 1, now_ms, now_ms, producer_id, epoch, sequence, self._count,
        )  # fmt: skip
        checked = head + self._packed
        rest = struct.pack(">ibI", -1, 2, calc_crc32c(checked)) + checked
        return struct.pack(">qi", 0, len(rest)) + rest


def record_of(distance: int, value: bytes | None, headers: int = 0) -> bytes:
    """Return a record without a key, encoded as in a batch, with `headers` empty headers."""
    said = b"" if value is None else value
    inner = b"\0" + varint(0) + varint(distance) + varint(-1) + varint(-1 if value is None else len(said)) + said
    inner += varint(headers) + (varint(0) + varint(0)) * headers
    return varint(len(inner)) + inner


def varint(number: int) -> bytes:
    """Return a number as Kafka's records have it."""
    left, out = (number << 1 ^ number >> 63) & (1 << 64) - 1, bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


async def send_batches(bootstrap: str, topic: str, partition: int, *batches: Batch) -> None:
    """Send batches as they are, one after the other."""
    cluster = Cluster(bootstrap)
    await cluster.start(topic)
    sender = Sender(cluster)
    try:
        await cluster.refresh([topic])
        await sender.start()
        for batch in batches:
            await sender.submit(topic, partition, batch)
    finally:
        await sender.stop()
        await cluster.stop()
