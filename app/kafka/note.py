"""That a transaction was aborted, kept while its id gets an epoch, with which its coordinator forgets how it ended."""

from app.kafka.cluster import Cluster
from app.kafka.coordinator import TransactionalId
from app.kafka.identity import NOBODY
from app.kafka.place import Place

_WRITTEN = ("Ongoing", "PrepareAbort", "CompleteAbort")


class Note(TransactionalId):
    """A transactional id whose only use is that its last transaction was aborted, as one of another id was."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        """Know of nothing written; read() comes first."""
        super().__init__(cluster, transactional_id)
        self._written = False

    async def read(self) -> bool:
        """Tell whether it is written."""
        self._producer = NOBODY
        self._written = (await self._describe())[2] in _WRITTEN
        return self._written

    async def write(self, place: Place) -> None:
        """Write it, by an empty transaction in a partition. Raises Fenced."""
        self._producer = NOBODY
        await self.init()
        await self._join([place], None)
        await self._end(committed=False)
        self._written = True

    async def clear(self) -> None:
        """Have it not written. Raises Fenced if another has written since."""
        if self._written:
            await self.init()
            self._written = False
