"""Transactions of one transactional id (KIP-98), without group offsets: the positions are in the changelog.

aiokafka's transactional producer sends each partition's batches until they are accepted, however long that takes. Here
a destination that does not accept its batch fails the transaction, so that others need not wait for it.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import aiokafka.errors as kafka
from aiokafka.protocol.produce import ProduceRequest

from app.kafka.errors import SendError, permanent
from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.produce.batch import Ack, Batch, PartitionBatch
from app.kafka.produce.partition_queue import SEQUENCES
from app.kafka.transactions.completion import CompletedId
from app.kafka.transactions.connection_group import ConnectionGroup, late_of
from app.kafka.transactions.coordinator import BACKOFF_S, FENCED, SLOWLY_S, TIMEOUT_MS, Fenced

log = logging.getLogger(__name__)

_ACKS_ALL = -1
_SHORT = {kafka.NotEnoughReplicasError.__name__, kafka.NotEnoughReplicasAfterAppendError.__name__}
#: Markers usually take milliseconds.
_STUCK_S = 0.3
#: A batch without an answer for this time is sent again on another connection. Its leader may be waiting for a
#: coordinator that has died, to verify that the transaction is ongoing (KIP-890): for 30 s, although the transaction is
#: aborted after 15. The new coordinator answers at once.
_AGAIN_S = 3.0


class Untaken(Exception):
    """A partition has not accepted its `batch`: the transaction is aborted. `error` is set if it never will.

    `short` is whether too many of its replicas are down.
    """

    def __init__(self, topic: str, partition: int, batch: Batch, why: str, error: SendError | None) -> None:
        """Name the partition and the cause `why`."""
        super().__init__(f"{topic}-{partition}: {why}")
        self.topic, self.partition, self.batch, self.error = topic, partition, batch, error
        self.short = why in _SHORT


class _Sending:
    """Batches in flight, and their results."""

    def __init__(self, batches: Sequence[PartitionBatch]) -> None:
        """Begin with all `batches` to be sent."""
        self._left = dict(enumerate(batches))
        #: The result of each batch; None if it was not sent.
        self.acks: list[Ack | SendError | None] = [None] * len(batches)
        self._index: dict[TopicPartition, int] = {}
        #: Partitions whose batch of this round was also in the last round.
        self._tried: set[TopicPartition] = set()
        #: Wait before the next round if a batch was not accepted: a leader is found at once, or not for seconds.
        self.backoff_s = BACKOFF_S

    def next(self) -> bool:
        """Begin a round with the first remaining batch of each partition; return whether there is any."""
        last, self._index = self._index, {batch[:2]: at for at, batch in reversed(self._left.items())}
        self._tried = {tp for tp, at in self._index.items() if last.get(tp) == at}
        return bool(self._left)

    @property
    def now(self) -> dict[TopicPartition, Batch]:
        """The batches of this round."""
        return {tp: self._left[at][2] for tp, at in self._index.items()}

    def is_sure(self, tp: TopicPartition) -> bool:
        """Return whether a refused batch was not stored: a batch that is sent again may have been the first time."""
        return tp not in self._tried

    def settle(self, tp: TopicPartition, ack: Ack | SendError) -> None:
        """Note the result of a batch of this round.

        After a refusal, no later batch of the partition is sent: it must not overtake a batch that has to be split.
        """
        at = self._index[tp]
        self.acks[at] = ack
        del self._left[at]
        if not isinstance(ack, Ack):
            self._left = {at: batch for at, batch in self._left.items() if batch[:2] != tp}

    def begin_no_more(self) -> None:
        """Send only the batches of the last round that have no result yet."""
        self._left = {at: self._left[at] for at in self._index.values() if at in self._left}


class Transactions(CompletedId):
    """Makes one transaction after another under one transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        again: TopicPartition,
        still_ours: Callable[[], Awaitable[None]] | None = None,
        connections: ConnectionGroup | None = None,
    ) -> None:
        """Prepare; init() or take_over() comes first. `again` and `still_ours` are those of CompletedId."""
        super().__init__(cluster, transactional_id, again, still_ours)
        self._sequences: dict[TopicPartition, int] = {}
        self._used_s = math.inf
        self._connections = connections or ConnectionGroup(transactional_id)

    async def init(self, stuck_s: float | None = None) -> None:
        """Get a new epoch, with which batches are numbered from 0; raises Fenced or TransactionStuck."""
        await super().init(stuck_s)
        self._sequences.clear()
        self._used_s = asyncio.get_running_loop().time()

    @property
    def rested_s(self) -> float:
        """The seconds since the last request for its coordinator."""
        return asyncio.get_running_loop().time() - self._used_s

    async def send(
        self, batches: Sequence[PartitionBatch], limit_s: float | None = None, also: Collection[TopicPartition] = ()
    ) -> list[Ack | SendError | None]:
        """Send batches within the transaction, those of one partition in order; return their acks.

        If a partition refuses a batch for good, the result is that error instead, and the transaction continues. Later
        batches of the partition are not sent: their result is None. Nor does a partition get another batch after
        `limit_s`, because a healthy partition with many batches may need longer.
        `also` names partitions for which batches will follow: they are added to the transaction at the same time.
        Raises Untaken if a partition has not accepted a batch within `limit_s` or never will, TransactionStuck if the
        transaction cannot begin, and Fenced.
        """
        for _, _, batch in batches:
            batch.renumber()  # it may have been part of an aborted transaction
        await self._add({batch[:2]: batch[2] for batch in reversed(batches)}, also, patient=limit_s is None)
        sending, began_s = _Sending(batches), asyncio.get_running_loop().time()
        while sending.next():
            await self._round(sending, limit_s, began_s)
            if limit_s is not None and asyncio.get_running_loop().time() > began_s + limit_s:
                sending.begin_no_more()
        return sending.acks

    async def commit(self) -> None:
        """Commit, retried until the coordinator confirms it.

        Raises Fenced, after which it is unknown whether it was committed: the state must be read again.
        """
        await self._end(committed=True)
        self._used_s = asyncio.get_running_loop().time()
        # A stray request could end the next transaction early. But a new epoch makes the coordinator forget how this
        # one ended: as long as that is needed, the id rests, and gets its epoch after it is settled.
        if self._stray and not self.doubtful:
            await self.renew()

    async def _add(
        self, batches: dict[TopicPartition, Batch], also: Collection[TopicPartition], *, patient: bool
    ) -> None:
        """Add partitions to the transaction: all, or none and raise Untaken if one cannot be added.

        With `patient`, wait for a missing topic.
        """
        new, first = batches.keys() - self._added.keys(), not self._added
        if not new:
            return
        while (refused := await self._join(sorted({*new, *also}), _STUCK_S)) is not None:
            where, code = refused
            if where not in batches:
                also = ()  # the error is found again when its batch is sent
                continue
            error, why = permanent(where[0], code), kafka.for_code(code).__name__
            await self._refresh({where[0]})  # it may have been deleted
            if error is not None or not patient:  # a missing topic does not appear within milliseconds
                raise Untaken(*where, batches[where], why, error)
            await asyncio.sleep(SLOWLY_S)
        if first:
            await self._sees_last_over()

    async def _round(self, sending: "_Sending", limit_s: float | None, began_s: float) -> None:
        """Send one batch per partition, one request per leader; temporary failures are left for the next round."""
        batches = sending.now
        requests, lost = self._by_leader(batches)
        answers = await self._answers(requests, limit_s)
        failed = ""
        worst: TopicPartition | None = next(((topic, p) for topic, p in batches if topic in lost), None)
        for answer in answers:
            for where, (code, offset, timestamp_ms) in answer.items():
                if code == 0:
                    sending.settle(where, Ack(offset, timestamp_ms))
                    self._sequences[where] = (self._sequences.get(where, 0) + batches[where].count) % SEQUENCES
                    continue
                if code in FENCED:
                    raise Fenced(self._id)
                error = permanent(where[0], code)
                if error is not None and sending.is_sure(where):
                    sending.settle(where, error)
                    continue
                failed, worst = kafka.for_code(code).__name__, where
                if error is not None or (failed in _SHORT and limit_s is not None):
                    raise Untaken(*where, batches[where], failed, error)  # replicas do not return within milliseconds
                lost.add(where[0])
        if worst is None:
            sending.backoff_s = BACKOFF_S
            return
        if limit_s is not None and asyncio.get_running_loop().time() > began_s + limit_s:
            raise Untaken(*worst, batches[worst], failed or "it has no leader", None)
        await self._refresh(lost)
        await asyncio.sleep(sending.backoff_s)
        sending.backoff_s = min(SLOWLY_S, 2 * sending.backoff_s)

    def _by_leader(
        self, batches: dict[TopicPartition, Batch]
    ) -> tuple[dict[int, dict[TopicPartition, Batch]], set[str]]:
        """Return the batches for each leader, and the topics of partitions without one."""
        requests: dict[int, dict[TopicPartition, Batch]] = {}
        lost: set[str] = set()
        for where, batch in batches.items():
            leader = self._cluster.leader(*where)
            if leader is None:
                lost.add(where[0])
            else:
                requests.setdefault(leader, {})[where] = batch
        return requests, lost

    async def _answers(
        self, requests: dict[int, dict[TopicPartition, Batch]], limit_s: float | None
    ) -> list[dict[TopicPartition, tuple[int, int, int]]]:
        """Send the batches for each leader; return the answers. A missing answer counts as a change of the leader.

        Raises Untaken for one of its batches if a leader does not answer within `limit_s`.
        """
        sent = {self._begin(leader, of): of for leader, of in requests.items()}
        late = await late_of(sent, _AGAIN_S if limit_s is None else limit_s)
        if late:
            self._connections.leave(late)
        if late and limit_s is not None:
            where, batch = next(iter(next(of for answer, of in sent.items() if answer in late).items()))
            raise Untaken(*where, batch, "it does not answer", None)
        return [self._codes_of(answer, of, late=answer in late) for answer, of in sent.items()]

    def _begin(self, leader: int, batches: dict[TopicPartition, Batch]) -> "asyncio.Future[Any]":
        """Send batches to their leader."""
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for (topic, partition), batch in batches.items():
            raw = batch.build(*self._producer, self._sequences.get((topic, partition), 0))
            topics.setdefault(topic, []).append((partition, raw))
        request = ProduceRequest(self._id, _ACKS_ALL, TIMEOUT_MS, list(topics.items()))
        return self._cluster.client.begin(leader, request, group=self._connections.group)

    def _codes_of(
        self, answer: "asyncio.Future[Any]", batches: dict[TopicPartition, Batch], *, late: bool
    ) -> dict[TopicPartition, tuple[int, int, int]]:
        """Return a leader's result for each batch: an error code, an offset and a timestamp."""
        error = kafka.RequestTimedOutError() if late else answer.exception()
        if isinstance(error, kafka.KafkaError):
            log.warning("transaction %s: %r", self._id, error)
            return dict.fromkeys(batches, (kafka.NotLeaderForPartitionError.errno, -1, -1))
        return {
            (topic, partition): (code, offset, timestamp)
            for topic, partitions in answer.result().topics
            for partition, code, offset, timestamp, *_ in partitions
        }

    async def _refresh(self, topics: set[str]) -> None:
        try:
            await self._cluster.refresh(topics)
        except kafka.KafkaError as error:
            log.warning("no metadata: %r", error)
            await asyncio.sleep(SLOWLY_S)
