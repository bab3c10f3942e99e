"""How many different destinations have messages waiting, as far as one worker knows."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

#: Names that have just been accepted are in no store yet; so counting anew each time would miss them.
_COUNT_EVERY_S = 1.0


class _Counts(Protocol):
    @property
    def destinations(self) -> Mapping[str, int]: ...


class _CensusShares(Protocol):
    @property
    def destinations(self) -> Mapping[str, Mapping[str, int]]: ...


class CensusStore(Protocol):
    """A partition of the table."""

    @property
    def counts(self) -> _Counts:
        """What waits there."""
        ...

    @property
    def shares(self) -> _CensusShares | None:
        """What of it is whose, None where all are of one sender."""
        ...


class _CensusProgress(Protocol):
    @property
    def pending(self) -> Mapping[str, int]: ...
    @property
    def destinations(self) -> int: ...
    @property
    def held_by(self) -> Mapping[str, int]: ...


class CensusReport(Protocol):
    """What another worker has told of a partition."""

    @property
    def progress(self) -> _CensusProgress:
        """What it says."""
        ...


class Lack(Enum):
    """Why there is no room for a destination."""

    ALL = "all are taken"
    SHARE = "the sender has its share"


class Census:
    """Counts destinations: exactly those of the worker's own partitions, and those of others as their reports have it.

    A report names the largest destinations and says how many others there are; the same ones may be in many reports,
    so that these count only as far as one report alone has more of them than are known by name.

    Where there are several senders, none gets another destination while it has as many as are free: one alone can take
    half of all, and however many do so leave as much to the next one as each of them has.
    """

    def __init__(
        self,
        limit: int,
        stores: Mapping[int, CensusStore],
        reports: Mapping[int, CensusReport],
        now: Callable[[], float],
        *,
        shared: bool = False,
    ) -> None:
        """Allow `limit` destinations; `stores` are the worker's own, `reports` those of all partitions.

        With `shared` there are several senders.
        """
        self.limit, self._stores, self._reports, self._now = limit, stores, reports, now
        self._shared = shared
        #: Destinations that have messages waiting; another set each time that they are counted.
        self.known: set[str] = set()
        #: Those of each sender, as far as they are known by name, and how many other workers report.
        self._of, self._elsewhere_of = dict[str, set[str]](), dict[str, int]()
        self._elsewhere, self._counted_s = 0, float("-inf")

    def __contains__(self, name: str) -> bool:
        """Return whether a destination is known to have messages waiting."""
        return name in self.known

    def admit(self, name: str, sender: str) -> Lack | None:
        """Count a destination of a sender; returns why not if it is not known and there is no room for it."""
        if name in self.known:
            return None
        if self._now() - self._counted_s >= _COUNT_EVERY_S:
            self._count()
        if name not in self.known:
            free = self.limit - max(len(self.known), self._elsewhere)
            if free <= 0:
                return Lack.ALL
            if self._shared and self.held(sender) >= free:
                return Lack.SHARE
            self.known.add(name)
            self._of.setdefault(sender, set()).add(name)
        return None

    def held(self, sender: str) -> int:
        """Return how many destinations a sender has messages waiting for."""
        return max(len(self._of.get(sender, ())), self._elsewhere_of.get(sender, 0))

    def _count(self) -> None:
        self._counted_s = self._now()
        reports = [report.progress for report in self._reports.values()]
        self.known = set().union(
            *(store.counts.destinations for store in self._stores.values()),
            *(report.pending for report in reports),
        )
        self.known.discard("")  # failure callbacks
        self._elsewhere = max((report.destinations for report in reports), default=0)
        self._of, self._elsewhere_of = {}, {}
        for shares in (store.shares for store in self._stores.values()):
            for sender, destinations in {} if shares is None else shares.destinations.items():
                self._of.setdefault(sender, set()).update(destinations)
        for sender, number in (held for report in reports for held in report.held_by.items()):
            self._elsewhere_of[sender] = max(number, self._elsewhere_of.get(sender, 0))
