"""Numbers of steps, by which a database knows whether one of the last is missing in between."""

import rocksdict

from tables import keys
from tables.database import Database
from tables.errors import StoreCorrupt

_META_STEPS, _META_SLOT = keys.META + b"steps", keys.META + b"#"

#: Each step leaves its number in one of so many slots, in turn: one that is missing leaves an older number there. What
#: can go missing in between lies right before the write-ahead logs, and those hold at most three write buffers; a step
#: takes some 350 bytes of them at least, so that is 36,000 steps.
_SLOTS = 1 << 16


class StepNumbers:
    """The number of a database's last step, written with each."""

    def __init__(self, db: Database) -> None:
        """Read it."""
        self._db = db
        #: The number of the last step that was written.
        self.last = db.number(_META_STEPS)

    def assure(self) -> None:
        """See that all of the last steps are there (30 ms): some may be missing in between.

        Raises StoreCorrupt if they are.
        """
        there = {int.from_bytes(value, "big") for _, value in self._db.items(*keys.span(_META_SLOT))}
        last = range(max(0, self.last - _SLOTS) + 1, self.last + 1)
        missing = sum(step not in there for step in last)
        if missing:
            self._db.condemn()
            raise StoreCorrupt(str(self._db.path), f"{missing:,} of its last {len(last):,} steps are missing")

    def write(self, batch: rocksdict.WriteBatch) -> None:
        """Put the next step's number into its batch."""
        step = self.last + 1
        number = keys.long_bytes(step)
        batch.put(_META_STEPS, number)
        batch.put(_META_SLOT + (step % _SLOTS).to_bytes(2, "big"), number)
