"""How the last transaction of a transactional id ended, and that it did so in each of its partitions.

A coordinator takes a partition that has no leader at the moment for deleted, and never writes its marker there
(TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue in Kafka 4.3): readers get no further, and the id's next
marker decides instead. So when that may have happened, an empty transaction with the same end is made in the same
partitions. Whoever dies in the midst of that leaves a transaction that is not to be aborted, as others are, if the one
before was committed: so that this can be seen, a partition is part of it which is part of no other.
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

#: A broker that has just started may not know of a topic yet; one that so many looks have not found is gone.
_LOOKS = 20
_NEVER = -1
#: An epoch that no producer ever has; -1 says that there is none. Who asks with it for the next one does not get it, so
#: the coordinator forgets nothing; but what is under way it aborts (TransactionCoordinator,
#: prepareInitProducerIdTransit; seen in Kafka 4.3).
_NO_ONES = -2

T = TypeVar("T")


class TransactionEnd(NamedTuple):
    """How a transaction was ended, and where, with how often each partition's leader had been lost before it began."""

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
        """Know of none; `again` is a partition in which nothing is written by transactions.

        `still_ours` raises Fenced if somebody takes the partition over, before something is ended again.
        """
        super().__init__(cluster, transactional_id)
        self._still_ours = still_ours
        self._again, self._abort_marker = again, AbortMarker(cluster, f"{transactional_id}-end")
        self._ended: TransactionEnd | None = None
        #: How the last owner's last transaction was ended; and the last epoch of one that is known to be aborted.
        self._committed, self._aborted = True, _NEVER
        #: Partitions that had no leader when the id was taken over: something may be open there.
        self._unseen = frozenset[TopicPartition]()

    async def take_over(self, home: TopicPartition, hanging: HangingTransactions) -> None:
        """Get an epoch as a new owner, and see that the last owner's last transaction has ended in each partition.

        `home` is part of every transaction; `hanging` sees it and all others. Raises Fenced.
        """
        producer, self._committed, self._aborted = await self._fence()
        self._ended, self._unseen = None, frozenset()
        while home in (found := await self._patiently(hanging.look)).unseen:  # noqa: ASYNC110
            await asyncio.sleep(SLOWLY_S)
        self._unseen = found.unseen
        self._committed = self._committed or found.epochs.get((producer, home), _NEVER) > self._aborted > _NEVER
        self._heed(found)
        tps = frozenset(found.by_producer.get(producer, ()))
        if self._unseen:
            tps |= {home}  # the coordinator is to know how it ended as long as that may matter
        await self._end_in(tps, committed=self._committed)
        await self._abort_marker.clear()
        if tps and not self._unseen:
            await self.init()  # whoever finds it ending again relies on that; nothing is left to be known

    def _heed(self, found: OpenTransactions) -> None:
        """Know that the last transaction was aborted, if it is the one which is known to be that is still open."""
        if found.belongs(self._producer[0], self._aborted):
            self._committed = False

    async def _fence(self) -> tuple[int, bool, int]:
        """Get an epoch as a new owner; return the last one's producer id, and whether it has committed last.

        And if not, the epoch of the one that was aborted, as long as there may have been another one since.
        With a new epoch the coordinator forgets that, so the note says it. The last owner may be alive until then: what
        it has under way is aborted first, and known to be; if it ends a transaction meanwhile, it commits it.
        It may have been us, with an epoch that we got after an abort which has not ended everywhere.
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
                continue  # somebody has made something of it meanwhile, which an epoch would abort
            self._producer = NOBODY
            with contextlib.suppress(TransactionStuck):
                await self.init(stuck_s=0.0)
                # What was aborted since we looked was noted before.
                committed = committed and not await self._abort_marker.read()
                # Who has got another epoch since may have made a transaction with it, or may not have come to that.
                another = not committed and self._producer[1] > epoch + 1
                return producer, committed, epoch if another else _NEVER

    async def _end_in(self, tps: frozenset[TopicPartition], *, committed: bool) -> None:
        """End a transaction in partitions in which it may not have."""
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

        What the last owner has left under way is aborted, unless it was ending a committed one again.
        """
        while True:
            described = await self._describe()
            producer, epoch = self._producer = described.producer
            if described.state in PREPARED:
                await asyncio.sleep(BACKOFF_S)
            elif described.state != "Ongoing":
                return described.state, described.producer
            elif self._again in described.unended:
                # Should its owner live, it takes another epoch before it goes on: then this ends nothing that follows.
                with contextlib.suppress(Fenced, TransactionStuck):
                    await self._ask(EndTxnRequest(self._id, producer, epoch, transaction_result=True), stuck_s=0.0)
            else:
                with contextlib.suppress(Fenced, TransactionStuck):
                    await self._ask(NextEpoch(self._id, TIMEOUT_MS, (producer, _NO_ONES)), stuck_s=0.0)

    @property
    def doubtful(self) -> bool:
        """Whether a transaction may be open somewhere: a broker was lost meanwhile, or there was none to ask."""
        return self._half_ended is not None or any(self._cluster.leader(*tp) is not None for tp in self._unseen)

    @property
    def _half_ended(self) -> TransactionEnd | None:
        """How the last transaction was ended, if a leader was lost since it began: it may still have been away then."""
        if self._ended is None:
            return None
        lost = any(self._cluster.losses(tp) != before for tp, before in self._ended.tps.items())
        return self._ended if lost else None

    async def settle(self) -> None:
        """See that the last transaction has ended in each of its partitions, if that is in doubt."""
        while self.doubtful:
            ended = self._half_ended
            if ended is not None:
                await self._end_again(ended.committed, frozenset(ended.tps))
                await self._see_it_over()
            else:
                await self._look_again()

    async def _end_again(self, committed: bool, tps: frozenset[TopicPartition]) -> None:  # noqa: FBT001 - as Ended has it
        tps = await self._led(tps)
        if self._still_ours is not None:
            await self._still_ours()  # a new owner may have looked already: its epoch would abort what follows
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
        if not tps:  # they have been deleted
            self._ended = None

    async def _see_it_over(self) -> None:
        """See that what was ended again is over; else it is in doubt.

        Nothing was written to the leaders, so no connection need tell of one that is lost meanwhile.
        """
        ended = self._ended
        if ended is None:
            return
        while (await self._describe()).state in PREPARED:  # noqa: ASYNC110 - only the coordinator knows
            await asyncio.sleep(BACKOFF_S)
        found = await self._patiently(lambda: open_in(self._cluster, ended.tps))
        left = {*found.by_producer.get(self._producer[0], ()), *found.unseen} & ended.tps.keys()
        self._ended = TransactionEnd(ended.committed, {**ended.tps, **dict.fromkeys(left, _NEVER)})

    async def _look_again(self) -> None:
        """Look into partitions that had no leader at the start, and end there what the last owner has left open."""
        found = await self._patiently(lambda: open_in(self._cluster, self._unseen))
        self._unseen &= found.unseen
        self._heed(found)
        tps = found.by_producer.get(self._producer[0])
        if tps:
            await self._end_again(self._committed, frozenset(tps))

    async def _sees_last_over(self) -> None:
        """Know that the last transaction was over when this one began; raises Stuck if it must be settled first.

        This one is what ends it again then, and a new owner is to know that of it, however long a leader is away.
        """
        if self.doubtful:
            ended = self._half_ended
            if ended is not None and ended.committed:
                await self._join([self._again], None)
            raise TransactionStuck(self._id)
        self._ended = None

    async def abort(self) -> None:
        """Abort; renew() must follow: with another epoch, late batches of this transaction are refused."""
        await self._abort_marker.keep(self._again)  # first: whoever takes the id over now may find only its next epoch
        await self._end(committed=False)

    async def renew(self) -> None:
        """Get the next epoch, with which the coordinator forgets how the last transaction ended; the note has it."""
        if self._ended is not None:
            await (self._abort_marker.clear() if self._ended.committed else self._abort_marker.keep(self._again))
        await self.init()

    async def confirm(self) -> None:
        """Forget the last transaction if it is over everywhere and no broker was lost meanwhile."""
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
        """Wait until the coordinator itself knows leaders of all these partitions; returns those that are there."""
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
