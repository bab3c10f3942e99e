"""Records whose header names are no UTF-8: brokers take them, clients of other languages can send them."""

import asyncio
import struct
from typing import Any

from aiokafka.record.util import calc_crc32c

from app.kafka import Batch, Cluster, Sender

HOLE, _BYTES = b"a-name-that-is-texts", b"\xffname-that-is-not-so"
assert len(HOLE) == len(_BYTES)
_CRC_AT, _CHECKED_FROM = 17, 21  # of a record batch, message format 2


class RawBatch(Batch):
    """A batch in whose bytes a name is replaced by one that no Python client would send."""

    def build(self, *numbers: Any) -> bytes:
        """Return its bytes."""
        raw = bytearray(super().build(*numbers).replace(HOLE, _BYTES))
        raw[_CRC_AT:_CHECKED_FROM] = struct.pack(">I", calc_crc32c(bytes(raw[_CHECKED_FROM:])))
        return bytes(raw)


def send_nameless(bootstrap: str, topic: str, partition: int, to: str, count: int) -> None:
    """Send requests each of which has a header whose name is no text."""
    batch = RawBatch()
    for number in range(count):
        headers: list[tuple[str, bytes | None]] = [("delay-to", to.encode()), ("delay-after", b"0")]
        assert batch.append(0, b"nameless", b"%d" % number, [*headers, (HOLE.decode(), b"\x00")])
    asyncio.run(send_batches(bootstrap, topic, partition, batch))


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
