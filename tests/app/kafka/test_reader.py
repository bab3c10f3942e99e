"""Records are read one partition at a time, whatever others have put into them."""

import asyncio
import struct
from collections.abc import Collection
from typing import TYPE_CHECKING, cast

import aiokafka.errors as kafka
import pytest
from aiokafka.record.util import calc_crc32c

from app.kafka import Batch
from app.kafka.metadata.offsets import OffsetAnswer, WantedOffset
from app.kafka.metadata.reader import PartitionReader
from punctual.contract.request import Headers
from tests.harness.raw import HOLE, RawBatch
from tests.harness.waiting import LIMIT_S

if TYPE_CHECKING:
    from app.kafka import Cluster

NAMELESS: Headers = [("delay-to", b"orders"), (HOLE.decode(), b"\x00")]
NAMED: Headers = [("delay-to", b"orders"), ("a-name", b"\x00")]


def stored(kind: type[Batch], base: int, headers: Headers) -> bytes:
    """Return a batch of three records as a broker has it."""
    batch = kind()
    for number in range(base, base + 3):
        assert batch.append(1_000 + number, b"k", b"%d" % number, headers)
    return struct.pack(">q", base) + batch.build(1, 0, base)[8:]


@pytest.mark.parametrize("start", range(9))
async def test_records_whose_header_names_are_no_text_are_read_like_others(start: int) -> None:
    raw = stored(Batch, 0, NAMED) + stored(RawBatch, 3, NAMELESS) + stored(Batch, 6, NAMED)
    reader = PartitionReader(cast("Cluster", None), "delay-requests", 0, start)

    reader._batches = reader._readable(raw, [])
    found = await reader._drain(100)

    assert [(record.offset, record.value) for record in found] == [(n, b"%d" % n) for n in range(start, 9)]
    assert [record.timestamp_ms for record in found] == [1_000 + n for n in range(start, 9)]
    assert reader._next_fetch == 9


async def test_a_marker_whose_batch_compaction_has_emptied_is_skipped() -> None:
    control = bytearray(stored(Batch, 3, NAMED))
    control[21:23] = struct.pack(">h", 0x30)  # transactional, and control
    control = control[:61]
    control[57:61] = struct.pack(">i", 0)
    control[8:12] = struct.pack(">i", 61 - 12)
    control[17:21] = struct.pack(">I", calc_crc32c(bytes(control[21:])))
    reader = PartitionReader(cast("Cluster", None), "delay-requests", 0, 0)

    reader._batches = reader._readable(stored(Batch, 0, NAMED) + bytes(control) + stored(Batch, 6, NAMED), [])
    found = await reader._drain(100)

    assert [record.offset for record in found] == [0, 1, 2, 6, 7, 8]


class MovedLeader:
    """A cluster whose broker 1 is gone: another one leads by now, which only new metadata says."""

    def __init__(self) -> None:
        self.leads, self.refreshed, self.asked = 1, 0, list[int]()
        self.client = self.offsets = self

    def leader(self, _topic: str, _partition: int) -> int:
        return self.leads

    async def refresh(self, _topics: Collection[str]) -> set[str]:
        self.refreshed += 1
        if self.refreshed == 1:
            raise kafka.KafkaConnectionError("no broker answers")
        self.leads = 2
        return set()

    async def ask(self, asked: WantedOffset, _tp: object) -> OffsetAnswer:
        self.asked.append(asked.leader)
        if asked.leader == 1:
            raise kafka.NodeNotReadyError("broker 1 is gone")
        return OffsetAnswer(0, 42)


async def test_if_a_leader_does_not_answer_the_leader_is_looked_up() -> None:
    cluster = MovedLeader()

    async with asyncio.timeout(LIMIT_S):
        assert await PartitionReader(cast("Cluster", cluster), "delay-controls", 0).end() == 42

    assert cluster.asked == [1, 1, 2]
