"""How many different destinations have messages waiting, as far as one worker knows."""

from collections.abc import Callable, Mapping
from typing import Protocol

#: Names that have just been accepted are in no store yet; so counting anew each time would miss them.
_COUNT_EVERY_S = 1.0


class _Counts(Protocol):
    @property
    def destinations(self) -> Mapping[str, int]: ...


class Store(Protocol):
    """A partition of the table."""

    @property
    def counts(self) -> _Counts:
        """What waits there."""
        ...


class _Progress(Protocol):
    @property
    def pending(self) -> Mapping[str, int]: ...
    @property
    def destinations(self) -> int: ...


class Report(Protocol):
    """What another worker has told of a partition."""

    @property
    def progress(self) -> _Progress:
        """What it says."""
        ...


class Census:
    """Counts destinations: exactly those of the worker's own partitions, and those of others as their reports have it.

    A report names the largest destinations and says how many others there are; the same ones may be in many reports,
    so that these count only as far as one report alone has more of them than are known by name.
    """

    def __init__(
        self, limit: int, stores: Mapping[int, Store], reports: Mapping[int, Report], now: Callable[[], float]
    ) -> None:
        """Allow `limit` destinations; `stores` are the worker's own, `reports` those of all partitions."""
        self.limit, self._stores, self._reports, self._now = limit, stores, reports, now
        #: Destinations that have messages waiting; another set each time that they are counted.
        self.known: set[str] = set()
        self._elsewhere, self._counted_s = 0, float("-inf")

    def __contains__(self, name: str) -> bool:
        """Return whether a destination is known to have messages waiting."""
        return name in self.known

    def admit(self, name: str) -> bool:
        """Count a destination; False if it is not known and there are as many as are allowed."""
        if name in self.known:
            return True
        if self._now() - self._counted_s >= _COUNT_EVERY_S:
            self._count()
        if name not in self.known:
            if max(len(self.known), self._elsewhere) >= self.limit:
                return False
            self.known.add(name)
        return True

    def _count(self) -> None:
        self._counted_s = self._now()
        self.known = set().union(
            *(store.counts.destinations for store in self._stores.values()),
            *(report.progress.pending for report in self._reports.values()),
        )
        self.known.discard("")  # failure callbacks
        self._elsewhere = max((report.progress.destinations for report in self._reports.values()), default=0)
