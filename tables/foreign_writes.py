"""Keys that a zombie has overwritten, until their true values are written again."""

import msgspec
import rocksdict

from tables import keys
from tables.database import Database

_META_DOUBT = keys.META + b"doubt"

_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class ForeignWrites:
    """Keys that a zombie has overwritten in the changelog, stored together with the store's offset.

    Without them, a process that dies after reading a zombie's batch and before correcting it would have forgotten the
    batch at its next start.
    """

    def __init__(self, db: Database) -> None:
        """Read the keys that the database holds."""
        raw = db.get(_META_DOUBT)
        self.keys: set[bytes] = set(_decode(raw)) if raw is not None else set()
        #: The number of keys in the database.
        self.written = len(self.keys)

    def write(self, batch: rocksdict.WriteBatch) -> None:
        """Put the keys into the step's batch if there are more than before, or none any more."""
        if len(self.keys) == self.written:
            return
        if self.keys:
            batch.put(_META_DOUBT, msgspec.msgpack.encode(sorted(self.keys)))
        else:
            batch.delete(_META_DOUBT)
        self.written = len(self.keys)
