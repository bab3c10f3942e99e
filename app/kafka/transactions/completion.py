"""Makes sure that the last transaction of a transactional id has ended in each of its partitions.

A coordinator takes a partition that has no leader at the moment for deleted, and never writes its marker there
(TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue in Kafka 4.3): readers get stuck, and the id's next marker
decides instead. So when that may have happened, an empty transaction with the same end is made in the same partitions.
If the process dies during it, the next owner must not abort it, as it does with others, if the previous transaction was
committed. To mark this case, it includes a partition that no other transaction includes.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import aiokafka.errors as kafka
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.transaction import EndTxnRequest

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.transactions.coordinator import (
    BACKOFF_S,
    COMMITTED,
    COMPLETE,
    PREPARED,
    SLOWLY_S,
    TIMEOUT_MS,
    AbortMarker,
    Fenced,
    TransactionalId,
    TransactionStuck,
)
from app.kafka.transactions.hanging import HangingTransactions, OpenTransactions, open_in
from app.kafka.transactions.next_epoch import NOBODY, NextEpoch

log = logging.getLogger(__name__)

#: A broker that has just started may not know a topic yet; after this many requests, a missing topic is deleted.
_LOOKS = 20
_NEVER = -1
#: An epoch that no producer has; -1 would mean none. A request for the next epoch with it is refused, so the
#: coordinator forgets nothing, but aborts an ongoing transaction (TransactionCoordinator, prepareInitProducerIdTransit;
#: seen in Kafka 4.3).
_NO_ONES = -2

T = TypeVar("T")


class TransactionEnd(NamedTuple):
    """The end of a transaction: its result, and how often each partition's leader had been lost before it began."""

    committed: bool
    tps: dict[TopicPartition, int]


class CompletedId(TransactionalId):
    """A transactional id whose last transaction has ended everywhere before the next one begins."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        again: TopicPartition,
        still_ours: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Prepare for an id; `again` is a partition in which no transaction writes records.

        `still_ours` raises Fenced if another owner takes the partition over; it is called before a transaction is ended
        again.
        """
        super().__init__(cluster, transactional_id)
        self._still_ours = still_ours
        self._again, self._abort_marker = again, AbortMarker(cluster, f"{transactional_id}-end")
        self._ended: TransactionEnd | None = None
        #: Whether the last owner committed last, the last epoch of a transaction known to be aborted, and the producer
        #: and the partitions of the ongoing transaction that this owner has aborted.
        self._committed, self._aborted, self._interrupted = True, _NEVER, (NOBODY, frozenset[TopicPartition]())
        #: Partitions without a leader at the takeover, in which a transaction may be open.
        self._unseen = frozenset[TopicPartition]()

    async def take_over(self, home: TopicPartition, hanging: HangingTransactions) -> None:
        """Get an epoch as a new owner, and make sure that the last owner's last transaction has ended everywhere.

        `home` is part of every transaction; `hanging` finds open transactions there and elsewhere. Raises Fenced.
        """
        self._interrupted = NOBODY, frozenset()
        producer, self._committed, self._aborted = await self._fence()
        self._ended, self._unseen = None, frozenset()
        while home in (transactions := await self._patiently(hanging.look)).unseen:  # noqa: ASYNC110
            await asyncio.sleep(SLOWLY_S)
        self._unseen = transactions.unseen
        self._committed = self._committed or transactions.epochs.get((producer, home), _NEVER) > self._aborted > _NEVER
        self._heed(transactions)
        tps = frozenset(transactions.by_producer.get(producer, ()))
        if earlier := self._earlier(transactions):  # first: if this owner dies after that, the next one finds a commit
            await self._end_in(earlier, committed=True)
        await self._end_in(tps - earlier | ({home} if self._unseen else set()), committed=self._committed)
        await self._abort_marker.clear()
        if tps and not self._unseen:
            await self.init()  # others that find it ending again rely on this; its end is known everywhere

    def _heed(self, transactions: OpenTransactions) -> None:
        """Note that the last transaction was aborted if an open one has the epoch of the known aborted one."""
        if transactions.belongs(self._producer[0], self._aborted):
            self._committed = False

    def _earlier(self, transactions: OpenTransactions) -> frozenset[TopicPartition]:
        """Return the partitions of a transaction that was committed before the aborted one, and is still open there.

        With one epoch, an id begins a transaction only after a commit.
        """
        (producer, epoch), tps = self._interrupted
        others = () if self._committed else transactions.by_producer.get(producer, set()) - tps
        return frozenset(tp for tp in others if transactions.epochs[producer, tp] == epoch)

    async def _fence(self) -> tuple[int, bool, int]:
        """Get an epoch as a new owner; return the last owner's producer id, whether it committed last, and an epoch.

        The epoch is that of an aborted transaction after which there may have been another one, otherwise `_NEVER`.
        With the new epoch the coordinator forgets how the last transaction ended, so an abort marker records it. The
        last owner may be alive until then: its ongoing transaction is aborted first, and recorded; if it ends one in
        the meantime, it commits it. The last owner may be this process, with an epoch that it got after an abort which
        has not ended everywhere.
        """
        ours = self._producer if self._ended is not None and not self._ended.committed else NOBODY
        while True:
            self.asking = True
            state, (producer, epoch) = decided = await self._decided()
            noted = await self._abort_marker.read()
            committed = COMMITTED.get(state, not noted and ours != (producer, epoch))
            if committed:
                await self._abort_marker.clear()
            elif not noted:
                await self._abort_marker.write(self._again)
            described = await self._describe()
            if (described.state, described.producer) != decided:
                continue  # another client has acted in the meantime, and an epoch would abort its transaction
            self._producer = NOBODY
            with contextlib.suppress(TransactionStuck):
                await self.init(stuck_s=0.0)
                # Aborts since the description were recorded before.
                committed = committed and not await self._abort_marker.read()
                # A client that got another epoch since then may or may not have begun a transaction with it.
                another = not committed and self._producer[1] > epoch + 1
                return producer, committed, epoch if another else _NEVER

    async def _end_in(self, tps: frozenset[TopicPartition], *, committed: bool) -> None:
        """End a transaction in partitions in which it may be open."""
        self._ended = TransactionEnd(committed, dict.fromkeys(tps, _NEVER))
        await self.settle()

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await work()
            except kafka.KafkaError:  # no broker answers
                await asyncio.sleep(SLOWLY_S)

    async def _decided(self) -> tuple[str, tuple[int, int]]:
        """Have the last transaction ended; return the coordinator's name for its state, and producer id and epoch.

        The last owner's ongoing transaction is aborted, unless it was ending a committed one again.
        """
        while True:
            described = await self._describe()
            producer, epoch = self._producer = described.producer
            if described.state in PREPARED:
                self._interrupted = self._interrupted[0], self._interrupted[1] | described.unended
                await asyncio.sleep(BACKOFF_S)
            elif described.state != "Ongoing":
                return described.state, described.producer
            elif self._again in described.unended:
                # If its owner is alive, it gets another epoch before it continues, so this ends no later transaction.
                with contextlib.suppress(Fenced, TransactionStuck):
                    await self._ask(EndTxnRequest(self._id, producer, epoch, transaction_result=True), stuck_s=0.0)
            else:
                self._interrupted = described.producer, described.unended
                with contextlib.suppress(Fenced, TransactionStuck):
                    await self._ask(NextEpoch(self._id, TIMEOUT_MS, (producer, _NO_ONES)), stuck_s=0.0)

    @property
    def doubtful(self) -> bool:
        """Whether a transaction may be open somewhere: a broker was lost in the meantime, or a leader was missing."""
        return self._half_ended is not None or any(self._cluster.leader(*tp) is not None for tp in self._unseen)

    @property
    def _half_ended(self) -> TransactionEnd | None:
        """The end of the last transaction if a leader was lost since it began, which may have been down at the end."""
        if self._ended is None:
            return None
        lost = any(self._cluster.losses(tp) != before for tp, before in self._ended.tps.items())
        return self._ended if lost else None

    async def settle(self) -> None:
        """Make sure that the last transaction has ended in each of its partitions, if that is in doubt."""
        while self.doubtful:
            ended = self._half_ended
            if ended is not None:
                await self._end_again(frozenset(ended.tps), committed=ended.committed)
                await self._see_it_over()
            else:
                await self._look_again()

    async def _end_again(self, tps: frozenset[TopicPartition], *, committed: bool) -> None:
        tps = await self._led(tps)
        if self._still_ours is not None:
            await self._still_ours()  # a new owner may have checked already: its epoch would abort what follows
        log.info(
            "transactional id %s: the transaction was ended again in %s, because a broker was down",
            self._id,
            sorted(tps),
        )
        again = {self._again} if committed else set()
        while tps and (refused := await self._join({*tps, *again}, None)) is not None:
            tps -= {refused[0]}
            again -= {refused[0]}
        await self._end(committed=committed)
        if not tps:  # the partitions have been deleted
            self._ended = None

    async def _see_it_over(self) -> None:
        """Check that a transaction that was ended again is over; otherwise it stays in doubt.

        No batch was sent to the leaders, so connections need not show the loss of a leader in the meantime.
        """
        ended = self._ended
        if ended is None:
            return
        while (await self._describe()).state in PREPARED:  # noqa: ASYNC110 - only the coordinator knows
            await asyncio.sleep(BACKOFF_S)
        transactions = await self._patiently(lambda: open_in(self._cluster, ended.tps))
        left = {*transactions.by_producer.get(self._producer[0], ()), *transactions.unseen} & ended.tps.keys()
        self._ended = TransactionEnd(ended.committed, {**ended.tps, **dict.fromkeys(left, _NEVER)})

    async def _look_again(self) -> None:
        """Check partitions that had no leader at the start, and end there the last owner's open transaction."""
        transactions = await self._patiently(lambda: open_in(self._cluster, self._unseen))
        self._unseen &= transactions.unseen
        self._heed(transactions)
        if earlier := self._earlier(transactions):
            await self._end_again(earlier, committed=True)
        tps = transactions.by_producer.get(self._producer[0], set()) - earlier
        if tps:
            await self._end_again(frozenset(tps), committed=self._committed)

    async def _sees_last_over(self) -> None:
        """Check that the last transaction was over when this one began; otherwise raise TransactionStuck.

        In that case this transaction ends the last one again, and marks that for a new owner, however long a leader is
        down.
        """
        if self.doubtful:
            ended = self._half_ended
            if ended is not None and ended.committed:
                await self._join([self._again], None)
            raise TransactionStuck(self._id)
        self._ended = None

    async def abort(self) -> None:
        """Abort; renew() must follow, because with another epoch, late batches of this transaction are refused."""
        await self._abort_marker.keep(self._again)  # first, because a new owner may find only the id's next epoch
        await self._end(committed=False)

    async def renew(self) -> None:
        """Get the next epoch; the coordinator forgets the last transaction's end, which the abort marker records."""
        if self._ended is not None:
            await (self._abort_marker.clear() if self._ended.committed else self._abort_marker.keep(self._again))
        await self.init()

    async def confirm(self) -> None:
        """Forget the last transaction if it is over everywhere and no broker was lost in the meantime."""
        ended = self._ended
        if ended is None or (await self._describe()).state not in COMPLETE:
            return
        with contextlib.suppress(kafka.KafkaError):
            await self._cluster.refresh({topic for topic, _ in ended.tps})
            if not self.doubtful and self._ended is ended:
                self._ended = None

    async def _end(self, *, committed: bool) -> None:
        tps = {tp: losses for tp, losses in self._added.items() if tp != self._again}
        await super()._end(committed=committed)
        if tps:
            self._ended = TransactionEnd(committed, tps)

    async def _led(self, tps: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Wait until the coordinator itself knows leaders of all these partitions; return the existing partitions."""
        request = MetadataRequest(sorted({topic for topic, _ in tps}), allow_auto_topic_creation=False)
        looks = 0
        while True:
            response = await self._ask(request, lambda _: 0)
            known = {topic: partitions for error, topic, _, partitions in response.topics if not error}
            there = {tp for tp in tps if tp[0] in known}
            led = {(topic, number) for topic, of in known.items() for _, number, leader, *_ in of if leader >= 0}
            looks += 1
            if there <= led and (len(there) == len(tps) or looks >= _LOOKS):
                return frozenset(there)
            await asyncio.sleep(SLOWLY_S)
