"""How a transaction ended, kept by its coordinator while the id gets a new epoch, with which that forgets the end."""

from app.kafka.coordinator import COMMITTED, TransactionalId
from app.kafka.identity import NOBODY
from app.kafka.place import Place


class Note(TransactionalId):
    """A transactional id whose only use is how its last transaction ended: as one of another id had."""

    async def read(self) -> bool | None:
        """Give whether what it stands for was committed, None if nothing is written."""
        self._producer = NOBODY
        return COMMITTED.get((await self._describe())[2])

    async def write(self, place: Place, *, committed: bool) -> None:
        """Write how a transaction ended, by an empty one in a partition. Raises Fenced."""
        self._producer = NOBODY
        await self.init()
        await self._join([place], None)
        await self._end(committed=committed)

    async def clear(self) -> None:
        """Forget it. Raises Fenced if another has written since."""
        await self.init()
