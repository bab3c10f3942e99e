"""Holds back due messages of a namespace while its own inputs are unread; messages of other namespaces are sent."""

from collections.abc import Callable, Iterable, Mapping

from app.engine.due.input_liveness import InputLiveness
from app.engine.partition.partition import Partition
from punctual.contract.namespaces import Namespaces
from tables import Entry, keys
from tables.changes import Pairs

_NONE: Mapping[str, int] = {}
#: A row counts once more for each part of this size.
_LARGE_BYTES = 16 << 10

Decide = Callable[[Partition, bytes, Entry, int], None]


class UnreadInputs:
    """Passes over rows whose namespace is behind in its inputs, and returns to them in their order."""

    def __init__(self, liveness: InputLiveness | None, namespaces: Namespaces, decide: Decide) -> None:
        """Use `liveness` to learn which namespaces are behind, and `decide` to send rows that may be sent."""
        self.liveness, self._namespaces, self._decide = liveness, namespaces, decide
        #: Of the last partition that look() has read: by how many milliseconds each namespace's messages are held back,
        #: and whether any row of the partition is held back or may have to be.
        self._apart_ms = _NONE
        self.active = False

    def look_at_inputs(self, partitions: Iterable[Partition], now_s: float) -> None:
        """Check that inputs are being read, before any partition is fired."""
        if self.liveness is not None:
            self.liveness.look(partitions, now_s)

    def behind_ms(self, partition: Partition) -> int:
        """Return by how many milliseconds a partition has to hold back all due rows."""
        return 0 if self.liveness is None else int(self.liveness.behind_s(partition) * 1000)

    def look(self, partition: Partition) -> int:
        """Read the lag of a partition before its rows are decided; return behind_ms()."""
        apart_s = None if self.liveness is None else self.liveness.apart_s(partition)
        self._apart_ms = {name: int(held_s * 1000) for name, held_s in apart_s.items()} if apart_s else _NONE
        self.active = bool(self._apart_ms or partition.in_flight.unread)
        return self.behind_ms(partition)

    def others(self, partition: Partition, rows: Pairs, now: int) -> Pairs:
        """Return the due rows that may be sent, and hold the others back."""
        in_flight = partition.in_flight
        return [
            (key, raw)
            for key, raw in rows
            if key in in_flight.claims or not self.waits(partition, key, in_flight.row(key, raw), now)
        ]

    def waits(self, partition: Partition, key: bytes, entry: Entry, now: int) -> bool:
        """Hold a row back if its namespace has unread input, or if earlier rows of the namespace are held back.

        Return whether the row is held back.
        """
        if not self.active:
            return False
        unread, namespace = partition.in_flight.unread, self._namespaces.of_id(entry.id)
        first = unread.get(namespace)
        if first is not None and first <= key:
            return True
        if keys.due_of(key) <= now - self._apart_ms.get(namespace, 0):
            return False
        unread[namespace] = key
        return True

    def go_on(self, partition: Partition, now: int, limit: int) -> int:
        """Send rows that have waited long enough; return how many were scanned, `limit` if there may be more."""
        left, behind_ms = limit, self.behind_ms(partition)
        for namespace, first in list(partition.in_flight.unread.items()):
            bound = keys.due_bound(now - max(self._apart_ms.get(namespace, 0), behind_ms))
            if left > 0 and first < bound:
                left = self._send(partition, namespace, bound, now, left)
        return limit - max(0, left)

    def _send(self, partition: Partition, namespace: str, bound: bytes, now: int, left: int) -> int:
        """Decide a namespace's rows before `bound`; return how many more may be scanned."""
        in_flight, first = partition.in_flight, partition.in_flight.unread.pop(namespace)
        for key, raw in partition.store.raw_rows(first):
            if key >= in_flight.cursor:  # the due loop has not reached these rows yet
                break
            entry = in_flight.row(key, raw)
            own = key not in in_flight.claims and self._namespaces.of_id(entry.id) == namespace
            if left <= 0 or key >= bound or (own and in_flight.is_going(key)):
                in_flight.unread[namespace] = key
                break
            left -= 1 + len(raw) // _LARGE_BYTES
            in_flight.row_bytes = max(in_flight.row_bytes, len(raw))  # the due loop may have seen only smaller ones
            if own:
                self._decide(partition, key, entry, now)
        return left
