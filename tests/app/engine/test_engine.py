"""What an engine does itself: it hands records over, and says whether its worker serves."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.engine.engine import Engine
from app.engine.faust_host.chunk import Chunk
from app.engine.partition.partition import State
from app.engine.view import EngineView


class Offered:
    """A partition that records the batches that it is offered."""

    def __init__(self, state: State = State.LIVE, reason: str = "") -> None:
        self.state, self.reason, self.records = state, reason, list[Any]()

    def offer(self, records: Any) -> "asyncio.Future[None]":
        self.records += records
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


def engine(partitions: dict[int, Offered], generation: int = 3) -> tuple[Any, list[Chunk]]:
    """Return an engine without its connections, and the chunks that its consumer hears are done."""
    made, done = Engine.__new__(Engine), list[Chunk]()
    made._app = SimpleNamespace(consumer=SimpleNamespace(done=done.append))
    made.ownership = SimpleNamespace(partitions=partitions, generation=generation)  # type: ignore[assignment]
    return made, done


def view(partitions: dict[int, Offered], generation: int) -> Any:
    """Return the view of an engine that has started."""
    made: Any = EngineView.__new__(EngineView)
    made.table = SimpleNamespace(progress={1: "restoring partition 1: 7 of 9"})
    made.parts = SimpleNamespace(ownership=SimpleNamespace(partitions=partitions, generation=generation))
    return made


def chunk(partition: int, generation: int) -> Chunk:
    """Return a chunk with one record."""
    return Chunk([SimpleNamespace(topic="delay-requests", partition=partition, offset=0, timestamp=0)], generation)


async def test_records_go_to_the_partition_of_their_number_and_the_consumer_hears_when_they_are_in_the_table() -> None:
    partitions = {0: Offered(), 1: Offered()}
    made, done = engine(partitions)
    given = chunk(1, 3)
    made.hand_over(given)
    await asyncio.sleep(0)

    assert (len(partitions[0].records), len(partitions[1].records)) == (0, 1)
    assert done == [given]


@pytest.mark.parametrize(("partition", "generation"), [(1, 2), (7, 3)])
async def test_records_of_an_earlier_assignment_are_dropped(partition: int, generation: int) -> None:
    """Records before them may have been dropped too: they are read again from the table's positions."""
    partitions = {1: Offered()}
    made, done = engine(partitions)
    made.hand_over(chunk(partition, generation))
    await asyncio.sleep(0)

    assert not partitions[1].records
    assert not done


@pytest.mark.parametrize(
    ("partitions", "generation", "sentence"),
    [
        ({}, -1, "waiting for the group to assign partitions"),
        ({}, 3, None),
        ({0: Offered(), 1: Offered(State.CATCHING_UP)}, 3, None),
        ({1: Offered(State.RESTORING)}, 3, "restoring partition 1: 7 of 9"),
        ({2: Offered(State.RESTORING)}, 3, "opening partition 2"),
        ({0: Offered(State.STOPPED, "it was recreated")}, 3, "partition 0 is stopped: it was recreated"),
    ],
)
def test_it_reports_missing_partitions_until_it_serves(
    partitions: dict[int, Offered], generation: int, sentence: str | None
) -> None:
    assert view(partitions, generation).ready_reason() == sentence


def test_before_it_has_started_it_says_so() -> None:
    made = view({}, 0)
    made.parts = None

    assert made.ready_reason() == "starting: waiting for Kafka"
