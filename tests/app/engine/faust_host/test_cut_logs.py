"""A log that was cut under a worker, and has grown again beyond where it had read, ends the worker."""

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, cast

import aiokafka
import pytest
from aiokafka.errors import OffsetOutOfRangeError

from app.base.errors import InputGone
from app.engine.faust_host import consumer as module
from app.engine.faust_host.consumer import Consumer
from app.kafka import Batch
from app.kafka.metadata.reader import PartitionReader
from app.kafka.patches.leader_epochs import LeaderEpochs
from app.kafka.patches.lenient_records import _PartitionRecords, _Records

TP = ("delay-requests", 0)
_COMMITTED = 1


def batch(base: int, epoch: int, count: int = 3) -> bytes:
    """Return a batch as a broker has it that was its partition's leader in an epoch."""
    made = Batch()
    for number in range(count):
        assert made.append(1_000, b"k", b"%d" % number, [])
    raw = bytearray(struct.pack(">q", base) + made.build(1, 0, base)[8:])
    raw[12:16] = struct.pack(">i", epoch)
    return bytes(raw)


@pytest.fixture
def epochs(monkeypatch: pytest.MonkeyPatch) -> LeaderEpochs:
    made = LeaderEpochs()
    monkeypatch.setattr("app.kafka.patches.lenient_records.epochs", made)
    monkeypatch.setattr(module, "epochs", made)
    return made


def fetch(offset: int, *batches: bytes) -> list[int]:
    """Read a fetch as the consumer does; return the offsets of its records."""
    records = _Records(b"".join(batches))
    rest: Any = [], offset, None, None, True, _COMMITTED
    return [one.offset for one in _PartitionRecords(aiokafka.TopicPartition(*TP), records, *rest).take(None)]


def test_only_a_fetch_from_a_later_leader_than_the_last_one_is_checked(epochs: LeaderEpochs) -> None:
    assert fetch(0, batch(0, 4), batch(3, 5)) == [0, 1, 2, 3, 4, 5], "of one fetch, one log"
    fetch(6, batch(6, 5))
    assert not epochs.risen
    assert fetch(9, batch(7, 6, 4)) == [9, 10]
    assert epochs.risen == {TP: (9, 5)}
    epochs.forget(TP)
    fetch(11, batch(11, 7))
    assert not epochs.risen, "its position was sought, and earlier records were checked then"


@pytest.mark.parametrize(
    ("there", "epoch"),
    [((batch(6, 5), batch(9, 6)), 5), ((batch(7, 6, 4),), 6), ((batch(9, 6),), None), ((), None)],
    ids=["it follows", "it was cut", "what lay before is gone", "nothing is there"],
)
async def test_the_epoch_of_a_record_is_that_of_its_batch(
    there: tuple[bytes, ...], epoch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def raw(_: PartitionReader) -> tuple[list[Any], bytes]:
        return [], b"".join(there)

    monkeypatch.setattr(PartitionReader, "_fetch_raw", raw)
    assert await PartitionReader(cast("Any", None), *TP, 8).leader_epoch() == epoch


class Before:
    """Stands where PartitionReader stands, before the record that was fetched."""

    asked: int
    answer: Any

    def __init__(self, _: Any, _topic: str, _number: int, offset: int) -> None:
        Before.asked = offset

    async def leader_epoch(self) -> int | None:
        if isinstance(Before.answer, Exception):
            raise Before.answer
        if Before.answer == "silent":
            await asyncio.sleep(60)
        return cast("int | None", Before.answer)


@pytest.mark.parametrize(
    ("answer", "ends"),
    [(5, False), (6, True), (None, False), (OffsetOutOfRangeError(), False), ("silent", False)],
)
async def test_a_log_that_has_other_records_before_the_position_ends_the_process(
    answer: object, *, ends: bool, epochs: LeaderEpochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(error: BaseException) -> None:
        raise error

    Before.answer = answer
    monkeypatch.setattr(module, "PartitionReader", Before)
    monkeypatch.setattr(module, "end_process", end)
    monkeypatch.setattr(module, "_UNCUT_S", 0.01)
    epochs.risen[TP] = 9, 5
    consumer: Any = SimpleNamespace(app=SimpleNamespace(engine=SimpleNamespace(cluster=None)))
    if ends:
        with pytest.raises(InputGone, match="truncated while this worker was reading it"):
            await Consumer._see_uncut(consumer)
    else:
        await Consumer._see_uncut(consumer)
    assert Before.asked == 8
    assert not epochs.risen


class Sought:
    """A consumer of aiokafka, and where it was sought to."""

    def __init__(self, begin: int) -> None:
        self._begin, self.offsets = begin, dict[Any, int]()

    async def beginning_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, self._begin)

    def seek(self, partition: Any, offset: int) -> None:
        self.offsets[partition] = offset


async def test_a_position_that_a_log_does_not_have_is_one_of_deleted_records_or_ends_the_process(
    epochs: LeaderEpochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(error: BaseException) -> None:
        raise error

    assert not epochs.risen
    monkeypatch.setattr(module, "end_process", end)
    partition = aiokafka.TopicPartition(*TP)
    for begin in (9, 7, 0):
        theirs = Sought(begin)
        host: Any = SimpleNamespace(
            _thread=SimpleNamespace(_ensure_consumer=lambda theirs=theirs: theirs),
            state_of=lambda _: SimpleNamespace(position=7),
        )
        if begin > 7:
            await Consumer._skip_deleted(host, {partition: 7})
            assert theirs.offsets == {partition: 9}
        else:
            with pytest.raises(InputGone):
                await Consumer._skip_deleted(host, {partition: 7})
