"""Several transactional ids for one partition, which take turns.

A transaction that its writer has committed is not over for its coordinator until each of its partitions has stored a
marker; until then its id cannot begin another (KIP-98). A destination that stores none, because its replicas are down,
would delay the whole partition. So each transaction has another id than the last.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.offsets import TopicPartition
from app.kafka.transactions.connection_group import ConnectionGroup
from app.kafka.transactions.coordinator import Fenced, TransactionStuck
from app.kafka.transactions.hanging import HangingTransactions
from app.kafka.transactions.transaction import Transactions, Untaken

log = logging.getLogger(__name__)

_IDS = 4
#: A coordinator usually needs some milliseconds to end a transaction everywhere.
_SOON_S = 0.3
#: The start waits for all ids, a little longer than an owner waits before it uses another id.
_FENCE_S = 1.0
_LOOK_S = 0.01
#: Brokers forget an id that was not used for long (`transactional.id.expiration.ms`, seven days by default). After this
#: time without use, an id gets another epoch, which costs one request.
RESTED_S = 600.0

T = TypeVar("T")


class TransactionalIdPool:
    """The transactional ids of one partition, all taken over at the start: each fences its previous user."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        home: TopicPartition,
        again: TopicPartition,
        hanging: HangingTransactions,
        stuck: Callable[[TopicPartition], Callable[[], None]],
    ) -> None:
        """Prepare ids that begin with `name`.

        Every transaction has a batch for the partition `home`, none for `again`; `hanging` checks all partitions that
        may have others. `stuck` is called with a partition that does not store a marker, and returns a function to call
        when it has.
        """
        self._cluster = cluster
        connections, ids = ConnectionGroup(name), [f"{name}-{number}" if number else name for number in range(_IDS)]
        self._all = [Transactions(cluster, id_, again, self._sees_none_taken, connections) for id_ in ids]
        self._name, self._home, self._hanging, self._stuck = name, home, hanging, stuck
        self._free: deque[Transactions] = deque()
        self._mending: dict[Transactions, asyncio.Task[None]] = {}
        #: The id whose transaction has begun, and continues with the next call.
        self._begun: Transactions | None = None

    async def fence(self) -> None:
        """Take over all ids, so that previous users can no longer write with them.

        If an id's last transaction cannot end, it waits only briefly, provided that another id is free: that
        transaction is decided, and a previous user of the id notices before its next transaction that the others are
        taken.
        """
        self.close()
        self._free.clear()
        self._begun = None
        for transactions in self._all:
            self._mend(transactions, transactions.take_over(self._home, self._hanging))
        while self._mending:
            await asyncio.wait(self._mending.values(), timeout=_FENCE_S)
            self._raise_failed()
            if self._free and all([await late.ending() for late in list(self._mending)]):
                break
            log.warning("transactions %s: waiting until the coordinator hands over all ids", self._name)

    async def run(self, work: Callable[[Transactions], Awaitable[T]]) -> T:
        """Run a whole transaction, or the rest of a begun one; return the result of `work`, which commits it.

        Raises Untaken, after which the transaction has been aborted, or Fenced.
        """
        done = await self.begin(work)
        self._begun = None
        self._free.rotate(-1)  # the next id is used while this transaction is ended everywhere
        return done

    async def begin(self, work: Callable[[Transactions], Awaitable[T]]) -> T:
        """Run the first part of a transaction, under an id that can begin one; run() does the rest.

        Raises Untaken, after which the transaction has been aborted, or Fenced.
        """
        while True:
            begun, self._begun = self._begun, None
            transactions = begun or await self._current()
            try:
                done = await work(transactions)
            except TransactionStuck:
                if begun is not None:  # another id would lack the first part; only a first request raises it
                    raise
                self._leave_aside(transactions, self._retake_watched(transactions, 0))
            except Untaken as untaken:
                if transactions.untouched:
                    raise
                await transactions.abort()
                # Without enough replicas, it does not store the marker either, and another try would cost another id.
                short = [(untaken.topic, untaken.partition)] if untaken.short else []
                self._leave_aside(transactions, self._retake_watched(transactions, _SOON_S, short))
                raise
            else:
                self._begun = transactions
                return done

    async def tend(self) -> None:
        """Maintain the ids between transactions, because idle ones may be used much later.

        Raises Fenced.
        """
        self._raise_failed()
        await self._cluster.look_for_losses()
        for transactions in list(self._free):
            if transactions.doubtful or transactions.rested_s > RESTED_S:
                self._leave_aside(transactions, self._retake(transactions))
            else:
                await transactions.confirm()

    async def _current(self) -> Transactions:
        """Return the id to use; waits until one is free.

        Raises Fenced.
        """
        self._raise_failed()
        while True:
            await self._cluster.look_for_losses()
            while self._free and self._free[0].doubtful:
                self._leave_aside(self._free[0], self._retake(self._free[0]))
            if self._free:
                return self._free[0]
            done, _ = await asyncio.wait(self._mending.values(), timeout=_SOON_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                log.warning(
                    "transactions %s: no transaction can begin, because each of the previous ones has partitions "
                    "that are unavailable",
                    self._name,
                )
                await asyncio.wait(self._mending.values(), return_when=asyncio.FIRST_COMPLETED)
            self._raise_failed()

    def _raise_failed(self) -> None:
        for task in list(self._mending.values()):
            if task.done():
                task.result()

    def _leave_aside(self, transactions: Transactions, retake: Coroutine[Any, Any, None]) -> None:
        """Do not use an id until its last transaction is over everywhere."""
        self._free.remove(transactions)
        self._mend(transactions, retake)

    async def _retake_watched(
        self, transactions: Transactions, soon_s: float, known: Collection[TopicPartition] = ()
    ) -> None:
        """Get an id's next epoch; after `soon_s` report the destinations that delay it, for as long as they do.

        Those that are `known` to delay it are reported at once.
        """
        task = asyncio.get_running_loop().create_task(self._retake(transactions))
        mended = {tp: self._stuck(tp) for tp in known}
        try:
            await asyncio.wait([task], timeout=soon_s)
            while not task.done():
                tps = await transactions.unfinished()
                if tps - mended.keys():
                    log.warning("transactions %s: the transaction cannot end in %s", transactions, sorted(tps))
                for tp in mended.keys() - tps:
                    mended.pop(tp)()
                mended |= {tp: self._stuck(tp) for tp in sorted(tps - mended.keys())}
                await asyncio.wait([task], timeout=_SOON_S)
            await task
        finally:
            task.cancel()
            for release in mended.values():
                release()

    def close(self) -> None:
        """Stop all work on ids."""
        for task in self._mending.values():
            task.cancel()
        self._mending.clear()

    async def _retake(self, transactions: Transactions) -> None:
        """Get an id's next epoch, and check that no id is taken: a new owner need not wait for this one."""
        await transactions.settle()
        await transactions.renew()
        await self._sees_none_taken()

    async def _sees_none_taken(self) -> None:
        for other in self._all:
            while await other.taken():
                if not other.asking:
                    raise Fenced(f"{other}: another producer has its epoch")
                await asyncio.sleep(_LOOK_S)

    def _mend(self, transactions: Transactions, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._mending[transactions] = task
        task.add_done_callback(lambda done: self._mended(transactions, done))
        return task

    def _mended(self, transactions: Transactions, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is None and self._mending.get(transactions) is task:
            del self._mending[transactions]
            self._free.append(transactions)
