"""Rows that the last owner may have sent: commands for them wait until it is known which have arrived."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.engine.partition.claims import ArrivedRow
from app.engine.partition.partition import State
from app.engine.steps.outcomes import Delivered
from tables import keys
from tests.app.stage import Stage


class Takeover:
    """A partition that begins with overdue messages that its last owner may have sent."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.store = stage, stage.stores[0]

    def begin(self, *ids: str) -> None:
        """Start a life in which the outcomes of these messages are not known yet."""
        self.rows = {id_: self._row(id_) for id_ in ids}
        self.stage.partition.catch_up()
        self.stage.partition.expect(list(self.rows.values()))

    def _row(self, id_: str) -> bytes:
        row = self.store.find(id_)
        assert row is not None
        return row

    async def command(self, op: str, id_: str, **said: str) -> None:
        await self.stage.ask(delay_op=op, delay_id=id_, **said)

    async def settle(self, *arrived: str) -> list[str]:
        """Report the arrived messages; return the IDs of the messages that are sent after that."""
        partition = self.stage.partition
        found = []
        for offset, id_ in enumerate(arrived):
            entry = self.store.entry(self.rows[id_])
            assert entry is not None
            found.append(ArrivedRow(self.rows[id_], entry.source, "orders", 0, offset, self.stage.clock.wall))
        partition.settle(found)
        partition.go_live()
        await self.stage.settle()
        return self.stage.fire()


@pytest.fixture
async def takeover(tmp_path: Path) -> AsyncIterator[Takeover]:
    async with Stage(tmp_path) as stage:
        yield Takeover(stage)
        stage.sender.accept()
        await stage.settle()


@pytest.mark.parametrize("op", ["reschedule", "deliver-now"])
async def test_an_arrived_message_is_not_sent_again_even_after_a_command(takeover: Takeover, op: str) -> None:
    """Both keep the due time, so that a copy is the same to the last byte."""
    await takeover.stage.schedule("a", 5)
    due_ms = takeover.stage.clock.wall - 5
    takeover.begin("a")
    await takeover.command(op, "a", **({"delay_at": str(due_ms)} if op == "reschedule" else {}))

    assert await takeover.settle("a") == []
    assert takeover.stage.told() == ["delivered a", "conflict a"]
    assert not takeover.store.counts.total


async def test_an_arrived_message_is_not_sent_at_another_time_either(takeover: Takeover) -> None:
    await takeover.stage.schedule("a", 5)
    takeover.begin("a")
    await takeover.command("reschedule", "a", delay_at=str(takeover.stage.clock.wall + 60_000))

    assert await takeover.settle("a") == []
    assert takeover.stage.told() == ["delivered a", "conflict a"]
    assert not takeover.store.counts.total


async def test_a_cancel_of_an_arrived_message_came_too_late(takeover: Takeover) -> None:
    await takeover.stage.schedule("a", 5)
    takeover.begin("a")
    await takeover.command("cancel", "a")

    assert await takeover.settle("a") == []
    assert takeover.stage.told() == ["delivered a", "conflict a"]


async def test_commands_for_messages_that_have_not_arrived_apply(takeover: Takeover) -> None:
    for id_ in ("cancelled", "moved", "replaced", "left"):
        await takeover.stage.schedule(id_, 5)
    takeover.begin("cancelled", "moved", "replaced", "left")
    await takeover.command("cancel", "cancelled")
    later_ms = takeover.stage.clock.wall + 60_000
    await takeover.command("reschedule", "moved", delay_at=str(later_ms))
    await takeover.stage.schedule("replaced", 1)
    assert takeover.stage.told() == []

    assert await takeover.settle() == ["left", "replaced"]
    assert sorted(takeover.stage.told()) == ["cancelled cancelled", "replaced replaced", "rescheduled moved"]
    row = takeover.store.find("moved")
    assert row is not None
    assert keys.due_of(row) == later_ms


async def test_a_paused_series_goes_on_after_the_occurrence_that_has_arrived(takeover: Takeover) -> None:
    await takeover.stage.schedule("a", 5, delay_every="60000", delay_count="3")
    takeover.begin("a")
    await takeover.command("pause", "a")

    assert await takeover.settle("a") == []
    await takeover.command("resume", "a")
    assert takeover.stage.fire() == []
    row = takeover.store.find("a")
    assert row is not None
    assert keys.due_of(row) == takeover.stage.clock.wall - 5 + 60_000


async def test_a_life_that_ends_before_it_is_known_leaves_the_rows_to_the_next_one(takeover: Takeover) -> None:
    await takeover.stage.schedule("a", 5)
    await takeover.stage.schedule("b", 5)
    takeover.begin("a", "b")
    await takeover.command("cancel", "b")
    partition = takeover.stage.partition
    partition.settle(())
    await partition.pause(5)

    assert partition.state is State.PAUSED
    assert not partition.claims
    assert takeover.stage.told() == ["cancelled b"]
    takeover.stage.begin(0)
    assert takeover.stage.fire() == ["a"]


async def test_rows_are_not_kept_in_memory_until_it_is_known(takeover: Takeover) -> None:
    await takeover.stage.schedule("a", 5)
    takeover.begin("a")
    claims, row = takeover.stage.partition.in_flight.claims, takeover.rows["a"]

    assert claims[row] is not claims[row]
    assert await takeover.settle() == ["a"]


async def test_a_late_acknowledgement_of_the_same_process_counts(takeover: Takeover) -> None:
    """It lost the partition with a send outstanding, and has got it again."""
    await takeover.stage.schedule("a", 5)
    takeover.begin("a")
    takeover.stage.partition.tell(Delivered([takeover.rows["a"]], 7, "orders", 0, takeover.stage.clock.wall))
    await takeover.stage.settle()

    assert await takeover.settle() == []
    assert takeover.stage.told() == ["delivered a"]


async def test_rows_that_were_examined_in_the_meantime_are_sent_if_they_have_not_arrived(takeover: Takeover) -> None:
    await takeover.stage.schedule("a", 5)
    takeover.begin("a")
    assert takeover.stage.partition.in_flight.first_unsettled(()) == takeover.rows["a"]

    assert await takeover.settle() == ["a"]
