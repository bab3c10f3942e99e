"""The positions of the group's consumer."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

from faust.types import TP

from app.engine.faust_host.consumer import Consumer
from app.engine.faust_host.consumer_thread import ConsumerThread
from app.engine.faust_host.group_intake import GroupIntake

HERE = TP("delay-requests", 0)


class Read(Consumer):
    """A consumer whose thread has fetched up to `position`, ahead of the records that it has handed over."""

    def __init__(self) -> None:
        self.app = SimpleNamespace(
            engine=SimpleNamespace(catching_up=True, hurried=True), consumer_generation_id=1, consumer=self
        )
        self.loop = asyncio.get_running_loop()
        self.held_back, self.flow_active, self.can_resume_flow = False, True, asyncio.Event()
        self._paused_partitions = set[TP]()
        self._ahead, self.reached, self._quiet = {}, {}, asyncio.Event()
        self.callback = self.hand_over
        self.fetched = SimpleNamespace(position=0, has_valid_position=True)
        self.intake = GroupIntake(self.app)
        self.seen: list[int | None] = []

    def _get_active_partitions(self) -> set[TP]:
        return {HERE}

    def state_of(self, _: TP) -> Any:
        return self.fetched

    def _to_message(self, _: TP, record: Any) -> Any:
        return record

    def look(self) -> None:
        self.seen.append(self.intake.position(*HERE))

    async def _getmany(self, **_: Any) -> Any:
        self.look()
        found = {HERE: [SimpleNamespace(topic=HERE.topic, partition=0, offset=0, timestamp=0)]}
        self.fetched.position = 1
        self.look()
        return found if len(self.seen) <= 2 else {}

    async def wait(self, *_: Any, **__: Any) -> None:
        """Resume no flow."""

    async def hand_over(self, chunks: Any) -> None:
        self.look()
        for chunk in chunks.unwrap():
            self.done(chunk)


async def test_fetched_records_do_not_count_as_read_before_they_are_handed_over() -> None:
    consumer = Read()
    for _ in range(2):
        await consumer._drain_once()

    assert consumer.seen == [0, 0, None, 1, 1]


async def test_records_dropped_at_the_start_of_a_rebalance_do_not_count_as_read() -> None:
    """Otherwise a partition that catches up would deliver before it has read the cancels among the dropped records."""
    consumer = Read()

    async def revoked_meanwhile(**_: Any) -> Any:
        consumer.flow_active, consumer.fetched.position = False, 1
        return {HERE: [SimpleNamespace(topic=HERE.topic, partition=0, offset=0, timestamp=0)]}

    consumer._getmany = revoked_meanwhile  # type: ignore[method-assign]
    for _ in range(2):
        await consumer._drain_once()
        consumer.look()
    consumer.forget()
    consumer.look()

    assert consumer.seen == [None, None, None]


async def test_positions_of_all_partitions_that_are_read_are_committed() -> None:
    consumer, there = Read(), TP("delay-forwards", 1)
    consumer._ahead[HERE], consumer.reached = 0, {there: 7}

    assert set(consumer._filter_tps_with_pending_acks()) == {HERE, there}
    assert set(consumer._filter_tps_with_pending_acks({there.topic})) == {there}


async def test_partitions_revoked_before_their_commit_do_not_end_the_process() -> None:
    class Thread(ConsumerThread):
        """A commit whose partitions are revoked by the time it is its turn."""

        def __init__(self) -> None:
            self.reasons: list[BaseException] = []
            self.tp_last_committed_at, self.log = dict[TP, float](), logging.getLogger("consumer")
            self._consumer = SimpleNamespace(assignment=set, commit=self.commit_nothing)

        def assignment(self) -> set[TP]:
            return set()

        async def crash(self, reason: BaseException) -> None:
            self.reasons.append(reason)

        async def commit_nothing(self, offsets: Any) -> None:
            raise ValueError(offsets)  # as aiokafka does

    thread = Thread()

    assert not await thread._commit({HERE: 7})
    assert not thread.reasons
