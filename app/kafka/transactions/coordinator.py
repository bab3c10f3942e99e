"""A transactional id at its coordinator (KIP-98): its epoch, and the partitions and end of its transaction."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import Any

import aiokafka.errors as kafka
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.describe_transactions import TransactionDescription
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.transactions.next_epoch import NOBODY, NextEpoch

log = logging.getLogger(__name__)

TIMEOUT_MS = 15_000
BACKOFF_S, SLOWLY_S = 0.003, 0.1
FENCED = (
    kafka.InvalidProducerEpoch.errno,
    kafka.InvalidProducerIdMapping.errno,
    kafka.InvalidTxnState.errno,
    90,  # PRODUCER_FENCED
)
_MOVED = (kafka.NotCoordinatorError, kafka.CoordinatorNotAvailableError)
#: Errors about one partition that is to be added; the coordinator then adds none of the others either.
_OF_PARTITION = (
    kafka.UnknownTopicOrPartitionError.errno,
    kafka.TopicAuthorizationFailedError.errno,
    kafka.InvalidTopicError.errno,
)
_NOT_ATTEMPTED = kafka.OperationNotAttempted.errno
#: Temporary errors; a coordinator without a quorum returns the last one.
_PASSING = (kafka.ConcurrentTransactions, kafka.CoordinatorLoadInProgressError, kafka.UnknownError)
#: The coordinator's names for a transaction that is being ended, and for an ended one.
PREPARED = ("PrepareCommit", "PrepareAbort")
COMPLETE = ("CompleteCommit", "CompleteAbort")
#: Whether a transaction in this state was committed.
COMMITTED = {state: state.endswith("Commit") for state in (*PREPARED, *COMPLETE)}


class Fenced(Exception):
    """Another producer has begun with the same transactional id, or the coordinator has given this producer up."""


class Forgotten(Fenced):
    """The brokers have forgotten the transactional id, because it was not used for too long."""


class IdForbidden(Exception):
    """The brokers do not let this client use the transactional id."""


class TransactionStuck(Exception):
    """The last transaction is not over everywhere, or may not be: a partition has not stored its marker."""


class TransactionalId:
    """One transactional id as its owner: sends requests to the coordinator until it answers."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        """Prepare for `transactional_id`; init() or take_over() comes first."""
        self._cluster, self._id = cluster, transactional_id
        self._coordinator: int | None = None
        self._producer = NOBODY
        #: Whether an epoch was requested that the coordinator may have given already.
        self.asking = False
        #: The transaction's partitions, and how often the leader of each had been lost before it was added.
        self._added: dict[TopicPartition, int] = {}
        #: Whether a request of this transaction may still reach the coordinator, although its answer was given up.
        self._stray = False

    def __str__(self) -> str:
        """Return the transactional id."""
        return self._id

    @property
    def doubtful(self) -> bool:
        """Whether the last transaction may be open somewhere although the coordinator has ended it."""
        return False

    @property
    def untouched(self) -> bool:
        """Whether the coordinator knows no transaction since the last request to end one."""
        return not self._added and not self._stray

    async def init(self, stuck_s: float | None = None) -> None:
        """Get a new epoch. The first one fences previous users of the id, and aborts their open transaction.

        Later epochs are only given if no other client has got one: an owner that lost the id must not take it back.
        Raises Fenced, or TransactionStuck if the last transaction is not over after `stuck_s`; with 0 also without an
        answer.
        """
        request = NextEpoch(self._id, TIMEOUT_MS, self._producer)
        self.asking = True
        try:
            response = await self._ask(request, stuck_s=stuck_s)
            self._producer = (response.producer_id, response.producer_epoch)
        finally:
            self.asking = False
        self._stray = False
        self._added.clear()

    # state of the last transaction -----------------------------------------------------------------------------------
    async def unfinished(self) -> frozenset[TopicPartition]:
        """Return the partitions that have not stored the marker of the last transaction yet."""
        return (await self._describe()).unended

    async def ending(self) -> bool:
        """Return whether the last transaction is decided, and being ended everywhere."""
        return (await self._describe()).state in PREPARED

    async def taken(self) -> bool:
        """Return whether there is another epoch than ours; it may be ours if its answer is in flight.

        Raises Forgotten if the coordinator knows of none.
        """
        before = self._producer
        described = await self._describe()
        if described.is_unknown and not self.asking and before == self._producer != NOBODY:
            raise Forgotten(self._id)
        return described.producer not in (before, self._producer)

    # requests --------------------------------------------------------------------------------------------------------
    async def _join(self, tps: Iterable[TopicPartition], stuck_s: float | None) -> tuple[TopicPartition, int] | None:
        """Add partitions to the transaction: all, or none if one is refused, which is returned with its error code."""
        topics: dict[str, list[int]] = {}
        losses = {tp: self._cluster.losses(tp) for tp in tps}
        for topic, partition in losses:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(self._id, *self._producer, list(topics.items()))
        response = await self._ask(request, _whole, None if self._added else stuck_s)
        refused = next((one for one in _codes(response) if one[1] in _OF_PARTITION), None)
        if refused is None:
            self._added |= losses
        return refused

    async def _end(self, *, committed: bool) -> None:
        if self._added:
            request = EndTxnRequest(self._id, *self._producer, committed)
            await self._ask(request)
            self._added.clear()

    async def _describe(self) -> TransactionDescription:
        described: TransactionDescription = await self._answer(
            lambda node: self._cluster.coordinators.describe(node, self._id),
            lambda state: 0 if state.is_unknown else state.error_code,  # an id without a transaction is no error
        )
        return described

    async def _ask(
        self, request: Any, code_of: Callable[[Any], int] = attrgetter("error_code"), stuck_s: float | None = None
    ) -> Any:
        return await self._answer(lambda node: self._cluster.ask_coordinator(node, request), code_of, stuck_s)

    async def _answer(
        self, ask: Callable[[int], Awaitable[Any]], code_of: Callable[[Any], int], stuck_s: float | None = None
    ) -> Any:
        """Send a request to the transaction coordinator until it answers for good.

        Raises Fenced, TransactionStuck if the last transaction is in doubt or not over after `stuck_s`, or the
        KafkaError of a permanent error. With a `stuck_s` of 0 it sends one request and raises TransactionStuck unless
        the answer is final; the request may have taken effect all the same.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            if stuck_s and self.doubtful:  # the coordinator may think that it is over
                raise TransactionStuck(self._id)
            response = await self._once(ask)
            if response is not None:
                code = code_of(response)
                if code == 0:
                    return response
                late = stuck_s is not None and loop.time() - began > stuck_s
                await self._wait_after(code, give_up=late)
            if stuck_s == 0:
                raise TransactionStuck(self._id)

    async def _wait_after(self, code: int, *, give_up: bool) -> None:
        """Wait until another try makes sense after an error; raises as `_answer` does.

        With `give_up`, raises TransactionStuck if the last transaction is not over.
        """
        error = kafka.for_code(code)
        if error is kafka.InvalidProducerIdMapping:
            raise Forgotten(self._id)
        if code in FENCED:
            raise Fenced(f"{self._id}: {error.__name__}")
        if error is kafka.TransactionalIdAuthorizationFailed:
            raise IdForbidden(self._id)
        busy = error is kafka.ConcurrentTransactions
        if busy and give_up:
            raise TransactionStuck(self._id)
        if error in _MOVED:
            self._coordinator = None
        elif error not in _PASSING and not getattr(error, "retriable", False):
            raise error(self._id)
        elif error is kafka.UnknownError:
            log.warning("transaction %s: its coordinator reports an unknown error", self._id)
        await asyncio.sleep(BACKOFF_S if busy else SLOWLY_S)

    async def _once(self, ask: Callable[[int], Awaitable[Any]]) -> Any | None:
        """Send a request to the coordinator; return None if it does not answer."""
        try:
            if self._coordinator is None:
                self._coordinator = await self._cluster.coordinators.find(self._id)
            return await ask(self._coordinator)
        except kafka.TransactionalIdAuthorizationFailed as error:
            raise IdForbidden(self._id) from error
        except kafka.KafkaError:
            self._coordinator, self._stray = None, True
            await asyncio.sleep(SLOWLY_S)
            return None


def _codes(response: Any) -> list[tuple[TopicPartition, int]]:
    """Return the error code of each partition that was to be added."""
    return [((topic, partition), code) for topic, codes in response.errors for partition, code in codes]


def _whole(response: Any) -> int:
    """Return the error that concerns more than single partitions, 0 if there is none."""
    aside = (0, _NOT_ATTEMPTED, *_OF_PARTITION)
    return next((code for _, code in _codes(response) if code not in aside), 0)


_WRITTEN = ("Ongoing", "PrepareAbort", "CompleteAbort")


class AbortMarker(TransactionalId):
    """A transactional id that records, by its own aborted transaction, that another id's last transaction was aborted.

    It is needed while the other id gets an epoch, because the coordinator then forgets how its transaction ended.
    """

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        """Prepare for `transactional_id`; read() comes first."""
        super().__init__(cluster, transactional_id)
        self._written = False

    async def read(self) -> bool:
        """Return whether the marker is set."""
        described = await self._describe()
        self._producer = NOBODY if described.is_unknown else described.producer
        self._written = described.state in _WRITTEN
        return self._written

    async def keep(self, tp: TopicPartition) -> None:
        """Make sure that the marker is set. Raises Fenced if another client has set or cleared it since it was read."""
        known = self._producer
        await self.read()
        if self._producer not in (known, NOBODY):
            raise Fenced(f"{self._id}: another producer has its epoch")
        if not self._written:
            await self.write(tp)

    async def write(self, tp: TopicPartition) -> None:
        """Set the marker by an empty transaction in a partition, even if another client has set it. Raises Fenced."""
        self._producer = NOBODY
        await self.init()
        await self._join([tp], None)
        await self._end(committed=False)
        self._written = True

    async def clear(self) -> None:
        """Make sure that the marker is not set. Raises Fenced if another client has set it since."""
        if self._written:
            await self.init()
            self._written = False
