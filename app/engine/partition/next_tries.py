"""The rows of a partition that wait for their next try: they are due, and are not looked at until then."""

import heapq
from collections.abc import Collection, Mapping


class NextTries(dict[bytes, int]):
    """The time of each row's next try, in epoch milliseconds; a restart finds it again, because rows have it too."""

    def __init__(self) -> None:
        """Begin without any row."""
        super().__init__()
        #: Times and rows; some entries are outdated: their rows wait until another time, or not at all.
        self._heap: list[tuple[int, bytes]] = []

    def clear(self) -> None:
        """Forget all rows."""
        super().clear()
        self._heap.clear()

    def wait(self, row: bytes, at_ms: int) -> None:
        """Have a row wait."""
        if self.get(row) != at_ms:
            self[row] = at_ms
            heapq.heappush(self._heap, (at_ms, row))

    def change(self, again: Mapping[bytes, int], gone: Collection[bytes]) -> None:
        """Take note of a step that is committed: rows that wait from now on, and rows that are gone."""
        for row in gone:
            self.pop(row, None)
        for row, at_ms in again.items():
            if row not in gone:
                self.wait(row, at_ms)
        if not self:
            self._heap.clear()

    def take_due(self, now_ms: int, limit: int) -> list[bytes]:
        """Return up to `limit` rows whose time has come, in its order; they wait no more."""
        found: list[bytes] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < limit:
            at_ms, row = heapq.heappop(self._heap)
            if self.get(row) == at_ms:
                del self[row]
                found.append(row)
        return found

    @property
    def next_ms(self) -> int | None:
        """When the next row's time comes; a little early where that row is gone."""
        return self._heap[0][0] if self._heap else None

    @property
    def oldest(self) -> bytes:
        """The first of the rows that wait; there must be one."""
        return min(self)
