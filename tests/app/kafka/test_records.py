"""Records that a broker refuses are found, and the others are sent once, in order."""

from aiokafka.record.memory_records import MemoryRecords

from app.kafka.errors import NotAuthorised, Recalled, SendError, TooLarge
from app.kafka.produce.batch import Ack, Batch
from app.kafka.produce.records import Record, send_records


class Log:
    """A partition that refuses these values, then all batches once it has `most` values; `errors` come first."""

    def __init__(self, *refused: bytes, most: int = 1_000, errors: tuple[SendError, ...] = ()) -> None:
        self.refused, self.most, self.errors = set(refused), most, list(errors)
        self.values: list[bytes] = []

    async def submit(self, batch: Batch) -> Ack:
        values = [record.value for record in MemoryRecords(batch.build(1, 0, 0)).next_batch()]
        if self.errors:
            raise self.errors.pop()
        if self.refused.intersection(values):
            raise TooLarge("t")
        if len(self.values) >= self.most:
            raise NotAuthorised("t")
        self.values += values
        return Ack(len(self.values) - len(values), 7)


def records(count: int, size: int = 0) -> list[Record]:
    return [(None, b"%d" % number + b" " * size, []) for number in range(count)]


async def test_a_record_that_is_refused_alone_has_its_error_and_the_others_their_offsets() -> None:
    log = Log(b"3", b"17")
    outcomes = await send_records(records(20), lambda: 1, log.submit)
    assert log.values == [b"%d" % number for number in range(20) if number not in (3, 17)]
    assert [number for number, one in enumerate(outcomes) if isinstance(one, TooLarge)] == [3, 17]
    assert [one for one in outcomes if isinstance(one, Ack)] == [Ack(offset, 7) for offset in range(18)]


async def test_after_another_error_the_rest_is_not_sent() -> None:
    log = Log(most=1)
    outcomes = await send_records(records(6, size=300_000), lambda: 1, log.submit)
    assert len(log.values) == 1
    assert outcomes[0] == Ack(0, 7)
    assert all(isinstance(one, NotAuthorised) for one in outcomes[1:])


async def test_after_another_error_no_record_of_a_refused_batch_is_sent() -> None:
    log = Log(b"7", most=1)
    outcomes = await send_records(records(8), lambda: 1, log.submit)
    assert log.values == [b"0", b"1", b"2", b"3"]
    assert outcomes[:4] == [Ack(offset, 7) for offset in range(4)]
    assert all(isinstance(one, NotAuthorised) for one in outcomes[4:])
    log = Log(b"3", most=1)
    outcomes = await send_records(records(8), lambda: 1, log.submit)
    assert log.values == [b"0", b"1"]
    assert all(isinstance(one, NotAuthorised) for one in outcomes[2:])


async def test_a_recalled_batch_is_sent_again() -> None:
    log = Log(errors=(Recalled("t", 0),))
    assert await send_records(records(2), lambda: 1, log.submit) == [Ack(0, 7), Ack(1, 7)]


async def test_records_of_a_batch_without_an_offset_have_none() -> None:
    async def submit(_: Batch) -> Ack:
        return Ack(-1, -1)

    assert await send_records(records(2), lambda: 1, submit) == [Ack(-1, -1)] * 2
