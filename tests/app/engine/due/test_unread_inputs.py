"""Messages of a namespace that is behind in its own inputs wait, and those of all others go on."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from app.engine.due.input_liveness import InputLiveness
from app.engine.partition.partition import Partition
from tests.app.stage import Stage

TEAMS = {"DELAY_INPUTS": "a-delays=native,b-delays=native", "DELAY_NAMESPACES": "a-delays=a,b-delays=b"}


class Behind(InputLiveness):
    """The delay of the inputs, which the test sets."""

    def __init__(self) -> None:
        self.all_s = 0.0
        self.apart: dict[str, float] = {}

    def look(self, partitions: object, now_s: float) -> None:
        """Return no records to read."""

    def behind_s(self, _: Partition) -> float:
        return self.all_s

    def apart_s(self, _: Partition) -> Mapping[str, float]:
        return self.apart


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
async def stage(tmp_path: Path, behind: Behind) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, 1, 4, DELAY_MAX_IN_FLIGHT="16", **TEAMS) as stage:
        stage.due.unread.liveness = behind
        yield stage


async def sent(stage: Stage) -> list[str]:
    """Fire all that can be fired now, and have it delivered."""
    found: list[str] = []
    while True:
        wait_s = stage.due.cycle(stage.clock.now_ms())
        some = stage.sender.ids()
        found += some
        if some:
            stage.sender.accept()
            await stage.settle()
        elif wait_s:
            return found


async def test_messages_of_other_namespaces_are_sent_and_those_that_waited_follow_in_order(
    stage: Stage, behind: Behind
) -> None:
    for number in range(6):
        await stage.schedule(f"a/{number}", 1_000 - number)
        await stage.schedule(f"b/{number}", 1_000 - number)
        await stage.schedule(f"{number}", 1_000 - number)
    behind.apart = {"a": 2.0}
    assert await sent(stage) == [id_ for number in range(6) for id_ in (f"b/{number}", f"{number}")]

    behind.apart = {}
    await stage.schedule("a/later", 0)
    assert await sent(stage) == [*(f"a/{number}" for number in range(6)), "a/later"]
    assert not stage.partition.in_flight.unread
    assert stage.partition.in_flight.oldest(stage.partition.store) is None


async def test_messages_due_before_the_namespace_fell_behind_are_sent_and_the_rest_waits(
    stage: Stage, behind: Behind
) -> None:
    for name, late in (("first", 3_000), ("second", 2_500), ("third", 1_000)):
        await stage.schedule(f"a/{name}", late)
    behind.apart = {"a": 2.7}
    assert await sent(stage) == ["a/first"]
    stage.clock.pass_by(300)
    assert await sent(stage) == ["a/second"]
    assert 0 < stage.due.cycle(stage.clock.now_ms()) < 0.5, "it is looked again soon"


async def test_a_message_that_waits_is_the_oldest_that_is_left(stage: Stage, behind: Behind) -> None:
    behind.apart = {"a": 2.0}
    await stage.schedule("a/waits", 1_000)
    await stage.schedule("b/goes", 500)
    assert await sent(stage) == ["b/goes"]
    oldest = stage.partition.in_flight.oldest(stage.partition.store)
    assert oldest is not None
    assert stage.partition.store.entry(oldest).id == "a/waits"  # type: ignore[union-attr]


async def test_a_row_that_is_put_before_a_waiting_row_is_sent_first(stage: Stage, behind: Behind) -> None:
    behind.apart = {"a": 2.0}
    await stage.schedule("a/second", 1_000)
    assert await sent(stage) == []
    await stage.schedule("a/first", 1_500)
    await stage.schedule("b/one", 1_200)
    assert await sent(stage) == ["b/one"]
    behind.apart = {}
    assert await sent(stage) == ["a/first", "a/second"]


async def test_all_wait_when_the_partition_is_behind_for_everybody(stage: Stage, behind: Behind) -> None:
    behind.all_s, behind.apart = 2.0, {"a": 4.0}
    await stage.schedule("a/one", 3_000)
    await stage.schedule("b/one", 3_000)
    await stage.schedule("b/two", 1_000)
    assert await sent(stage) == ["b/one"]
    behind.apart = {}
    assert await sent(stage) == ["a/one"]
    behind.all_s = 0.0
    assert await sent(stage) == ["b/two"]


async def test_a_destination_that_was_paused_serves_others_while_a_namespace_is_behind(
    stage: Stage, behind: Behind
) -> None:
    stage.control("orders", paused=True)
    for team in "ab":
        await stage.schedule(f"{team}/one", 1_000)
    assert await sent(stage) == []
    behind.apart = {"a": 2.0}
    stage.control("orders")
    assert await sent(stage) == ["b/one"]
    behind.apart = {}
    assert await sent(stage) == ["a/one"]


async def test_what_waited_leaves_half_of_the_room_to_others(stage: Stage, behind: Behind) -> None:
    behind.apart = {"a": 2.0}
    for number in range(8):
        await stage.schedule(f"a/{number}", 1_000 - number)
    assert await sent(stage) == []
    await stage.schedule("b/one", 0)
    behind.apart = {}
    assert stage.fire() == ["a/0", "a/1", "b/one"]


async def test_a_message_that_is_cancelled_while_it_waits_is_not_sent(stage: Stage, behind: Behind) -> None:
    behind.apart = {"a": 2.0}
    for name in ("one", "two"):
        await stage.schedule(f"a/{name}", 1_000)
    assert await sent(stage) == []
    await stage.ask(delay_op="cancel", delay_id="a/one")
    behind.apart = {}
    assert await sent(stage) == ["a/two"]
