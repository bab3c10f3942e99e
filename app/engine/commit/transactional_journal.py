"""Exactly once: a step, including its deliveries, is one transaction of its partition's own transactional id.

Read-committed readers see either the whole step or no part. Local state changes only after the commit. A partition's
new owner fences the old owner before it reads the changelog's end, so the old owner can write no more.
"""

import asyncio
import contextlib
import fnmatch
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from app.base.errors import NotOwner, TransactionForbidden
from app.engine.commit.journal import WHOLE, Journal
from app.engine.steps.delivery import Delivery
from app.engine.steps.outcomes import Delivered
from app.engine.steps.step import Step
from app.kafka import Ack
from app.kafka.errors import SendError
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.metadata.reader import PartitionReader, WrittenReader
from app.kafka.produce.batch import Batch, PartitionBatch
from app.kafka.transactions.coordinator import Fenced, Forgotten, IdForbidden
from app.kafka.transactions.hanging import HangingTransactions
from app.kafka.transactions.id_pool import TransactionalIdPool
from app.kafka.transactions.transaction import Transactions, Untaken
from app.settings.destinations import DestinationSettings
from tables import Changes

#: Minimum and maximum of the timeout. In between it is `_TIMES` the sum of the average and the deviation of the time
#: that our own topics took lately, as in RFC 6298.
_LEAST_S, _TIMES, _MOST_S = 0.15, 4, 2.0
_SMOOTHING = 0.1


class AdaptiveTimeout:
    """The time for which one destination may hold up a transaction of many; longer while our own topics are slow."""

    def __init__(self) -> None:
        """Begin without measurements."""
        self._average_s = self._deviation_s = 0.0

    @property
    def limit_s(self) -> float:
        """Seconds to wait for a destination; after that it leaves the transaction, and is tried again later."""
        return min(_MOST_S, max(_LEAST_S, _TIMES * (self._average_s + self._deviation_s)))

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the time that our own topics take in the body of the `with` statement."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        yield
        off_s = loop.time() - began - self._average_s
        self._average_s += off_s * _SMOOTHING
        self._deviation_s += (abs(off_s) - self._deviation_s) * _SMOOTHING


class TransactionalJournal(Journal):
    """Commits steps as transactions."""

    def __init__(
        self, stuck: Callable[[TopicPartition], Callable[[], None]], destinations: DestinationSettings, *args: Any
    ) -> None:
        """Begin with no partition; `stuck` is called for a partition that holds a transaction up (TransactionalIdPool).

        Transactions may write to internal topics and the topics in `destinations`; `args` are those of Journal.
        """
        super().__init__(*args)
        self._id_pools: dict[int, TransactionalIdPool] = {}
        self._hanging = HangingTransactions(self._cluster, self._may_write)
        self._stuck, self._destinations = stuck, destinations
        self._timeout = AdaptiveTimeout()

    def reader(self, partition: int, offset: int) -> PartitionReader:
        """Return a reader of a partition's changelog, for records that may be committed but not readable yet."""
        return WrittenReader(self._cluster, self._changelog, partition, offset)

    async def fence(self, partition: int) -> None:
        """Take over the partition's transactional ids, so that their last owner can write no more."""
        id_pool = self._id_pools.get(partition)
        if id_pool is None:
            home = (self._changelog, partition)
            again = (self._topics.progress, 0)
            name = f"{self._topics.app_id}-{partition}"
            id_pool = self._id_pools[partition] = TransactionalIdPool(
                self._cluster, name, home, again, self._hanging, self._stuck
            )
        with _Owning(partition):
            await id_pool.fence()

    def _may_write(self, topic: str) -> bool:
        """Return whether our transactions may include a topic."""
        patterns = itertools.chain.from_iterable(self._destinations.allowed_topics.values())
        return topic in self._topics.internal_topics or any(fnmatch.fnmatchcase(topic, one) for one in patterns)

    async def deliver(self, partition: int, step: Step) -> Sequence[Delivered]:
        """Begin the step's transaction with its deliveries; return the taken ones. commit() continues the transaction.

        Deliveries that are refused for good, and later ones for the same partition, leave the step.
        Raises Untaken if a destination does not take its batch; the transaction is then aborted without effect.
        Raises NotOwner if another worker has taken the partition.
        """
        deliveries: Sequence[Delivery] = step.deliveries
        if not deliveries:
            return ()
        self.reached("before-send", None)
        batches = [(delivery.route[1], delivery.route[2], delivery.batch) for delivery in deliveries]
        own = [(self._changelog, partition), (self._events_topic, partition)]
        with _Owning(partition):
            acks = await self._id_pools[partition].begin(
                lambda transactions: transactions.send(batches, self._timeout.limit_s, own)
            )
        self.reached("acked", None)
        return settle(step, acks)

    async def _append_step(self, partition: int, step: Step) -> None:
        """Commit a step in the transaction that deliver() has begun, or else in a new one."""
        store = self._table.stores[partition]
        with _Owning(partition):
            end = await self._id_pools[partition].run(lambda transactions: self._once(transactions, partition, step))
        store.apply(step.changes, end, store.writer, step.now_ms)
        self.reached("applied", step)

    async def _once(self, transactions: Transactions, partition: int, step: Step) -> int:
        """Send a step's batches for our own topics, and commit; return the offset after the step in the changelog."""
        self.reached("before-events", step)
        batch = self._batch(step.changes, self._table.stores[partition].writer, step.now_ms)
        own = [*self._outgoing(partition, step), (self._changelog, partition, batch)]
        with self._timeout.measured():
            acks = await self._send_own(transactions, own)
        self.reached("changelog-acked", step)
        await transactions.commit()
        self.reached("committed", step)
        return acks[-1].offset + batch.count

    async def _send_own(self, transactions: Transactions, batches: Sequence[PartitionBatch]) -> list[Ack]:
        """Send batches to our own topics. Raises SendError if a topic does not take its batch."""
        acks = []
        try:
            for ack in await transactions.send(batches):
                if isinstance(ack, SendError):
                    raise ack
                assert ack is not None  # without a limit, a batch is left unsent only after a refusal
                acks.append(ack)
        except Untaken as error:
            raise error.error or error from error
        return acks

    async def claim(self, partition: int, now_ms: int) -> int:
        """Stamp the changelog with a higher epoch; no other worker can have written since fence().

        Returns the broker's time of the stamp (epoch ms).
        """
        store = self._table.stores[partition]
        epoch = self._next_epoch(partition)
        batch = self._batch(Changes(), epoch, now_ms)
        ack = await self._write(partition, batch)
        store.apply(Changes(), ack.offset + batch.count, epoch, now_ms)
        return ack.timestamp_ms

    async def check_alone(self, partition: int, now_ms: int) -> None:  # noqa: ARG002 - see Journal
        """End transactions that are still open. Raises NotOwner if another worker has taken the partition."""
        with _Owning(partition):
            await self._id_pools[partition].tend()

    async def _append(self, partition: int, batch: Batch, now_ms: int, *, last: bool) -> None:
        store = self._table.stores[partition]
        ack = await self._write(partition, batch)
        if last:
            store.foreign.keys.clear()
        store.apply(Changes(), ack.offset + batch.count, store.writer, now_ms)

    async def put(self, partition: int, batch: Batch) -> None:
        """Append a batch of this partition's writer to its changelog, in a transaction of its own."""
        await self._write(partition, batch)

    async def _write(self, partition: int, batch: Batch) -> Ack:
        async def once(transactions: Transactions) -> Ack:
            acks = await self._send_own(transactions, [(self._changelog, partition, batch)])
            await transactions.commit()
            return acks[0]

        return await self._id_pools[partition].run(once)

    def new_batch(self, limit: int = WHOLE) -> Batch:
        """Return an empty batch that is part of a transaction."""
        return Batch(limit, transactional=True)


def settle(step: Step, acks: Sequence[Ack | SendError | None]) -> list[Delivered]:
    """Report the results of a step's deliveries to them; return the taken rows. Other deliveries leave the step."""
    taken, left, delivered = list[Delivery](), list[tuple[Delivery, SendError | None]](), list[Delivered]()
    for delivery, ack in zip(step.deliveries, acks, strict=True):
        if isinstance(ack, Ack):
            delivery.taken()
            taken.append(delivery)
            topic, partition = delivery.route[1:]
            delivered.append(Delivered(delivery.runs[0][1], ack.offset, topic, partition, delivery.sent_ms))
        else:
            left.append((delivery, ack))
    if left:
        step.deliveries = taken
    for delivery, error in reversed(left):  # because each is put in front of all waiting deliveries
        if error is None:
            delivery.unsent()
        else:
            delivery.refused(error)
    return delivered


class _Owning:
    """Converts errors of a lost or forbidden transactional id into NotOwner or TransactionForbidden."""

    __slots__ = ("_partition",)

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def __enter__(self) -> None:
        """Return no value: only the end of the body matters."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Forgotten):
            msg = (
                f"partition {self._partition}: the brokers have forgotten the transactional id {error}, because it "
                "was unused for longer than their transactional.id.expiration.ms. Raise this setting to an hour or "
                "more. This process ends. Its supervisor restarts it."
            )
            raise NotOwner(msg) from error
        if isinstance(error, Fenced):
            msg = (
                f"partition {self._partition}: another worker has taken it over, or brokers were down for longer "
                f"than the transaction timeout ({error}). This process ends. Its supervisor restarts it."
            )
            raise NotOwner(msg) from error
        if isinstance(error, IdForbidden):
            raise TransactionForbidden(error) from error
