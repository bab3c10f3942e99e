"""What other workers have told of how far they are counts for the inputs that there are now."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from app.engine.ownership.unread_backlog import UnreadBacklog
from app.engine.partition.partition import State
from app.kafka.metadata.reader import Stored
from app.settings.settings import Settings
from tests.harness.waiting import LIMIT_S

SETTINGS = Settings.from_env({"DELAY_PARTITIONS": "2"})


class Topics:
    """Inputs that end somewhere, and the progress records that were written."""

    def __init__(self, end: int, told: Sequence[int]) -> None:
        """Create inputs of two partitions that end at these offsets, with positions reported in turn."""
        self.ends = {(SETTINGS.topics.requests, number): end for number in range(2)}
        self.reports = [self.report(number, position) for position in told for number in range(2)]

    def report(self, number: int, position: int) -> Stored:
        """Return the progress record that says how far a partition has read."""
        said = msgspec.json.encode({"partition": number, "positions": {SETTINGS.topics.requests: position}})
        return cast("Stored", SimpleNamespace(key=b"%d" % number, value=said, offset=0))

    def tell(self, position: int) -> None:
        """Have both partitions say how far they are now."""
        self.reports += [self.report(number, position) for number in range(2)]

    def reader(self, _cluster: object, topic: str, partition: int, offset: int = 0) -> Any:
        """Return a replacement of PartitionReader."""
        progress, at = topic == SETTINGS.topics.progress, [offset]

        async def end() -> int:
            return len(self.reports) if progress else self.ends.get((topic, partition), 0)

        async def begin() -> int:
            return 0

        async def position() -> int:
            return at[0]

        async def chunk(_limit: int) -> Sequence[Stored]:
            await asyncio.sleep(0.001)
            found = self.reports[at[0] :]
            at[0] += len(found)
            return found

        return SimpleNamespace(end=end, begin=begin, position=position, chunk=chunk)


def look(topics: Topics, monkeypatch: pytest.MonkeyPatch, *, ours: bool) -> UnreadBacklog:
    """Return a look of a worker that has no partition yet, or both, which are being restored."""
    monkeypatch.setattr("app.engine.ownership.unread_backlog.PartitionReader", topics.reader)
    restoring: Any = SimpleNamespace(state=State.RESTORING, working=False)

    async def report() -> None:
        """Tell nobody."""

    partitions = dict.fromkeys(range(2), restoring) if ours else {}
    return UnreadBacklog(SETTINGS.topics, cast("Any", None), partitions, lambda *_: False, report)


@pytest.mark.parametrize("ours", [True, False])
async def test_inputs_that_have_been_read_to_the_end_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, *, ours: bool
) -> None:
    await asyncio.wait_for(look(Topics(50, [20, 50]), monkeypatch, ours=ours).cleared(), LIMIT_S)


@pytest.mark.parametrize("ours", [True, False])
async def test_a_position_on_a_recreated_topic_is_ignored(monkeypatch: pytest.MonkeyPatch, *, ours: bool) -> None:
    topics = Topics(50, [1_000_000])
    looking = look(topics, monkeypatch, ours=ours)
    cleared = asyncio.create_task(looking.cleared())
    await asyncio.sleep(0.05)
    assert not cleared.done()

    if ours:
        cleared.cancel()
        looking.close()
        return
    topics.tell(50)
    await asyncio.wait_for(cleared, LIMIT_S)


async def test_a_position_beyond_an_old_end_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(50, [70])
    looking = look(topics, monkeypatch, ours=False)
    reader, asked = topics.reader, []

    def growing(*args: Any) -> Any:
        asked.append(args)
        topics.ends = dict.fromkeys(topics.ends, 50 if len(asked) < 4 else 80)
        return reader(*args)

    monkeypatch.setattr("app.engine.ownership.unread_backlog.PartitionReader", growing)
    await asyncio.wait_for(looking.cleared(), LIMIT_S)
