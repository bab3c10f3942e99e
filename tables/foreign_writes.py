"""Keys that a zombie was the last to write, until their true values are written again."""

import msgspec
import rocksdict

from tables import keys
from tables.database import Database

_META_DOUBT = keys.META + b"doubt"

_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class ForeignWrites:
    """Keys of the changelog, kept with the offset that has gone past the zombie's records of them.

    Without that, a process that dies after it has read a zombie's batch and before it has set it right would not know
    of it when it comes back.
    """

    def __init__(self, db: Database) -> None:
        """Read what the database holds."""
        raw = db.get(_META_DOUBT)
        self.keys: set[bytes] = set(_decode(raw)) if raw is not None else set()
        #: How many of them the database holds.
        self.written = len(self.keys)

    def write(self, batch: rocksdict.WriteBatch) -> None:
        """Put them into the step's batch if there are more than there were, or none any more."""
        if len(self.keys) == self.written:
            return
        if self.keys:
            batch.put(_META_DOUBT, msgspec.msgpack.encode(sorted(self.keys)))
        else:
            batch.delete(_META_DOUBT)
        self.written = len(self.keys)
