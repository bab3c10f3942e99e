"""A worker that stood still: it fires again when its inputs are read, unless another has its partitions by now."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.base.errors import NotOwner
from app.engine.ownership.assignment import Ownership, Stages
from app.engine.partition.partition import Partition, State
from tests.app.stage import Stage

if TYPE_CHECKING:
    from app.kafka import Cluster
    from tables import DelayTable


class Nothing:
    """Replaces the reader of the inputs' backlog and the controls: both are empty."""

    def __init__(self) -> None:
        self.read_times = 0

    async def again(self, _: Partition) -> None:
        self.read_times += 1

    async def read(self) -> None:
        """They are read."""


class Changelog:
    """Says who else has written to the changelog."""

    def __init__(self, stage: Stage) -> None:
        self.answers = asyncio.Event()
        self.answers.set()
        self.taken = False
        stage.journal.check_alone = self.check  # type: ignore[method-assign]

    async def check(self, partition: int, now_ms: int) -> None:  # noqa: ARG002 - the journal's signature
        await self.answers.wait()
        if self.taken:
            raise NotOwner("another worker has taken it")


class Still:
    """A worker with a message that fell due while it stood still."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.changelog, self.inputs = stage, Changelog(stage), Nothing()
        stages = SimpleNamespace(catch_up=self.inputs, controls=self.inputs)
        self._ownership = Ownership(
            stage.partitions,
            cast("DelayTable", None),
            cast("Cluster", None),
            cast("Stages", stages),
            cast("Any", None),
            stage.due.notify,
            stage.failures.append,
        )
        stage.partition._lost_inputs = self._ownership._look_again

    def goes_on(self) -> None:
        """Let it see that it has stood still."""
        self.stage.partition.lose_inputs()
        assert self.stage.partition.state is State.CATCHING_UP

    def live(self) -> bool:
        return self.stage.partition.state is State.LIVE


@pytest.fixture
async def still(tmp_path: Path) -> AsyncIterator[Still]:
    async with Stage(tmp_path) as stage:
        await stage.schedule("a", 5)
        yield Still(stage)


async def test_it_delivers_if_no_other_worker_has_its_partition(still: Still) -> None:
    still.goes_on()
    await still.stage.until(still.live)

    assert still.stage.fire() == ["a"]
    still.stage.sender.accept()


async def test_it_delivers_no_message_of_a_partition_that_another_worker_has(still: Still) -> None:
    still.changelog.taken = True
    still.goes_on()
    await still.stage.until(lambda: still.stage.failures)

    [failure] = still.stage.failures
    assert isinstance(failure, NotOwner)
    assert still.stage.fire() == []
    still.stage.failures.clear()


async def test_it_delivers_no_message_before_the_changelog_has_answered(still: Still) -> None:
    still.changelog.answers.clear()
    still.goes_on()
    await asyncio.sleep(0.1)
    assert still.stage.fire() == []

    still.changelog.answers.set()
    await still.stage.until(still.live)


async def test_records_that_came_while_the_changelog_was_slow_are_read_too(
    still: Still, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.ownership.assignment.BLIND_S", 0.05)
    still.changelog.answers.clear()
    still.goes_on()
    await asyncio.sleep(0.1)
    still.changelog.answers.set()
    await still.stage.until(still.live)

    assert still.inputs.read_times == 2


async def test_a_changelog_that_is_always_slow_does_not_delay_forever(
    still: Still, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.engine.ownership.assignment.BLIND_S", -1.0)
    still.goes_on()
    await still.stage.until(still.live)

    assert still.inputs.read_times == 3
