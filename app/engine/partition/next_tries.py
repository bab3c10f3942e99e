"""The rows of a partition that wait for their next try: they are due, but skipped until then."""

import heapq
from collections.abc import Collection, Mapping


class NextTries(dict[bytes, int]):
    """The time of each row's next try, in epoch milliseconds; it is also in the row, where a restart finds it."""

    def __init__(self) -> None:
        """Begin without any row."""
        super().__init__()
        #: Times and rows. Some entries are outdated: their rows wait until another time, or not at all.
        self._heap: list[tuple[int, bytes]] = []

    def clear(self) -> None:
        """Forget all rows."""
        super().clear()
        self._heap.clear()

    def wait(self, row: bytes, at_ms: int) -> None:
        """Let a row wait until `at_ms`."""
        if self.get(row) != at_ms:
            self[row] = at_ms
            heapq.heappush(self._heap, (at_ms, row))

    def change(self, again: Mapping[bytes, int], gone: Collection[bytes]) -> None:
        """Apply a committed step: rows in `again` wait from now on, rows in `gone` do not any more."""
        for row in gone:
            self.pop(row, None)
        for row, at_ms in again.items():
            if row not in gone:
                self.wait(row, at_ms)
        if not self:
            self._heap.clear()

    def take_due(self, now_ms: int, limit: int) -> list[bytes]:
        """Remove and return up to `limit` rows whose time has come, in order of time."""
        due: list[bytes] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < limit:
            at_ms, row = heapq.heappop(self._heap)
            if self.get(row) == at_ms:
                del self[row]
                due.append(row)
        return due

    @property
    def next_ms(self) -> int | None:
        """When the next row's time comes, or earlier if that row is gone; None without any row."""
        return self._heap[0][0] if self._heap else None

    @property
    def oldest(self) -> bytes:
        """The first row that waits, by key; there must be one."""
        return min(self)
