"""The partitions that this worker owns, and their stages from assignment to delivery.

A partition delivers only when it is assigned, restored to the changelog's end, claimed by this worker alone, has
ingested the backlog of its inputs, has searched for its last owner's deliveries, has read all controls, and its
assignment is still the current one.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import aiokafka.errors

from app.base.errors import PartitionStopped
from app.base.process.fatal import telling
from app.engine.due.input_liveness import BLIND_S
from app.engine.ownership.arrival_search import ArrivalSearch
from app.engine.ownership.destination_end import Expected
from app.engine.ownership.input_logs import InputLogs
from app.engine.ownership.partition_catch_up import PartitionCatchUp
from app.engine.ownership.recovery import StoreRecovery
from app.engine.ownership.unread_backlog import UnreadBacklog
from app.engine.partition.partition import FetchedPositions, Partition
from app.engine.reports.watermark import Watermark
from app.engine.steps.route import Route
from app.engine.throttle.controls import Controls
from app.kafka import Cluster
from punctual.contract.request import TOPIC_NAME
from tables import DelayTable, PartitionStore, RecordsGarbled, RecordUnreadable

log = logging.getLogger(__name__)

#: How many times a partition that was out of sight reads its inputs, if checking that it is the only writer is slow.
_LOOKS = 3

_FINISH_S = 3.0
#: Seconds that a partition waits while its series are planned by new zone rules; the rest follows during delivery.
_REPLAN_S = 2.0


class SeekableInputs(FetchedPositions, Protocol):
    """The parts of the consumer that ownership uses."""

    async def begin(self, partition: int, offsets: dict[str, int]) -> None:
        """Seek the partition of each input topic to its offset, and start to consume."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a partition from assignment to delivery, in order."""

    recovery: StoreRecovery
    logs: InputLogs
    watermark: Watermark
    intake: SeekableInputs
    catch_up: PartitionCatchUp
    controls: Controls
    arrival_search: ArrivalSearch


class Ownership:
    """Acquires and releases partitions."""

    def __init__(
        self,
        partitions: dict[int, Partition],
        table: DelayTable,
        cluster: Cluster,
        stages: Stages,
        new_partition: Callable[[int, Callable[[Partition], None]], Partition],
        notify: Callable[[], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        """Own no partitions yet; `partitions` is changed only here.

        `new_partition` creates one from its number and a callback for unreadable inputs. `notify` is called when there
        may be due messages, `fatal` with an error that must end the process.
        """
        self.partitions, self._table, self._cluster, self._stages = partitions, table, cluster, stages
        self._new, self._notify, self._fatal = new_partition, notify, fatal
        self.generation = -1
        self._closed = False
        self._tasks: dict[int, asyncio.Task[None]] = {}

    @property
    def topics(self) -> set[str]:
        """The topics that are read."""
        return set(self._stages.logs.topics)

    async def revoke(self) -> None:
        """Stop work on all partitions: messages in flight are finished, or abandoned after `_FINISH_S`."""
        self.generation = -1
        self._stages.catch_up.close()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(partition.pause(_FINISH_S) for partition in self.partitions.values()))

    async def assign(self, numbers: Collection[int], generation: int) -> None:
        """Own exactly these partitions from now on; each begins to work when it is ready.

        After `close` that is none, because a rebalance can end while the process ends.
        """
        if self._closed:
            numbers, generation = (), -1
        self.generation = generation
        for number in set(self.partitions) - set(numbers):
            del self.partitions[number]
        for number in set(self._table.stores) - set(numbers):
            self._table.close(number)
        for number in sorted(numbers):
            if number not in self.partitions:
                self.partitions[number] = self._new(number, self._look_again)
        look = self._stages.catch_up.begin()
        self._stages.arrival_search.begin()
        for number in sorted(numbers):
            self._run(number, self._acquire(self.partitions[number], generation, look))

    async def close(self) -> None:
        """Release everything for good: databases are closed when this returns."""
        self._closed = True
        await self.revoke()
        await self.assign((), -1)

    def _look_again(self, partition: Partition) -> None:
        """Stop deliveries until the backlog of the inputs is read, because commands may have arrived unseen."""
        number = partition.number
        sentence = "partition %d: its inputs could not be read. Deliveries resume when the inputs have been read"
        log.warning(sentence, number, extra={"partition": number})
        partition.catch_up()
        self._run(partition.number, self._catch_up_again(partition, self.generation))

    async def _catch_up_again(self, partition: Partition, generation: int) -> None:
        """Bring a partition that was out of sight back to delivery, unless another worker has it by now.

        While this process stood still, the group may have given the partition away unnoticed.
        """
        loop = asyncio.get_running_loop()
        for _ in range(_LOOKS):
            read_s = await self._stages.catch_up.again(partition)
            await self._stages.controls.read()
            asked_s = loop.time()
            await partition.writer.see_alone()
            if loop.time() - asked_s <= BLIND_S:  # otherwise commands may have arrived in the meantime
                break
        self._go_live(partition, generation, read_s)

    async def _acquire(self, partition: Partition, generation: int, look: UnreadBacklog) -> None:
        """Bring a partition from assignment to delivery."""
        number, stages = partition.number, self._stages
        partition.restore()
        try:
            store = await stages.recovery.restore(number)
            offsets = await stages.logs.positions(number, store)
        except (PartitionStopped, RecordsGarbled, RecordUnreadable) as error:
            partition.stop(str(error))
            if not isinstance(error, PartitionStopped):
                self._table.close(number)  # its data in memory may be incomplete
            return
        began = asyncio.get_running_loop().time()
        ends = await stages.logs.ends(number)
        await stages.recovery.end_replaced(number, store)
        await self._learn_destinations(store)
        claims = await stages.watermark.claims(number)
        expected = await stages.arrival_search.expected(store)
        if generation != self.generation:
            return
        partition.start(store, self._fatal)
        for topic, stamp_ms in claims.items():
            partition.memory.claim(topic, stamp_ms)
        partition.expect([one.row for rows in expected.values() for one in rows.values()])
        try:
            await partition.follow_zones(_REPLAN_S, overdue=False)
            await stages.intake.begin(number, offsets)
            _, read_s = await asyncio.gather(
                self._settle(partition, expected), stages.catch_up.wait(partition, ends, look, began)
            )
        finally:
            partition.settle(())  # the partition's life ends here, and waits for no arrivals
        await stages.controls.read()  # destinations that were paused without an owner stay paused
        if generation == self.generation and partition.working:
            await partition.follow_zones(_REPLAN_S, overdue=True)
        if asyncio.get_running_loop().time() - read_s > BLIND_S:
            await self._catch_up_again(partition, generation)
        else:
            self._go_live(partition, generation, read_s)

    async def _settle(self, partition: Partition, expected: Mapping[Route, Expected]) -> None:
        """Find out which of the expected rows have arrived; commands for them wait until then."""
        partition.settle(await self._stages.arrival_search.look(partition.number, expected))

    def _go_live(self, partition: Partition, generation: int, read_s: float) -> None:
        if generation == self.generation and partition.working:
            partition.go_live(read_s)
            self._notify()

    async def _learn_destinations(self, store: PartitionStore) -> None:
        try:
            await self._cluster.refresh([topic for topic in store.counts.destinations if TOPIC_NAME.fullmatch(topic)])
        except aiokafka.errors.KafkaError as error:
            log.warning("destinations: no metadata yet: %r", error)

    def _run(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[number] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(telling(self._fatal))
