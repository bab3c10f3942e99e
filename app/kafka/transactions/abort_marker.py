"""A note that a transaction was aborted, kept while its id gets an epoch: then its coordinator forgets the end."""

from app.kafka.metadata.cluster import Cluster
from app.kafka.metadata.topic_partition import TopicPartition
from app.kafka.transactions.coordinator import Fenced, TransactionalId
from app.kafka.transactions.next_epoch import NOBODY

_WRITTEN = ("Ongoing", "PrepareAbort", "CompleteAbort")


class AbortMarker(TransactionalId):
    """A transactional id whose only use is that its last transaction was aborted, as one of another id was."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        """Know of nothing written; read() comes first."""
        super().__init__(cluster, transactional_id)
        self._written = False

    async def read(self) -> bool:
        """Return whether it is written."""
        described = await self._describe()
        self._producer = NOBODY if described.is_unknown else described.producer
        self._written = described.state in _WRITTEN
        return self._written

    async def keep(self, tp: TopicPartition) -> None:
        """Make sure that it is written. Raises Fenced if another has written or cleared it since it was read."""
        known = self._producer
        await self.read()
        if self._producer not in (known, NOBODY):
            raise Fenced(f"{self._id}: another producer has its epoch")
        if not self._written:
            await self.write(tp)

    async def write(self, tp: TopicPartition) -> None:
        """Write it, by an empty transaction in a partition, whoever else has written. Raises Fenced."""
        self._producer = NOBODY
        await self.init()
        await self._join([tp], None)
        await self._end(committed=False)
        self._written = True

    async def clear(self) -> None:
        """Make sure that it is not written. Raises Fenced if another has written since."""
        if self._written:
            await self.init()
            self._written = False
