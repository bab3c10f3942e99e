"""The number of different destinations that have pending messages, as far as one worker knows."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

#: Seconds between counts. Names that have just been accepted are in no store yet, so each count may miss some.
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
        """Pending messages by destination."""
        ...

    @property
    def shares(self) -> _CensusShares | None:
        """Pending messages by sender, None if all are of one sender."""
        ...


class _CensusProgress(Protocol):
    @property
    def pending(self) -> Mapping[str, int]: ...
    @property
    def destinations(self) -> int: ...
    @property
    def held_by(self) -> Mapping[str, int]: ...


class CensusReport(Protocol):
    """Another worker's report on a partition."""

    @property
    def progress(self) -> _CensusProgress:
        """The figures of the report."""
        ...


class Lack(Enum):
    """Why there is no room for a destination."""

    ALL = "all are taken"
    SHARE = "the sender has its share"


class Census:
    """Counts destinations: exactly in the worker's own partitions, and by the reports in all others.

    A report names only the largest destinations, and gives the number of all. The same destinations may be in many
    reports, so the count is the number of known names, or the largest number in a report if that is higher.

    If there are several senders, a sender gets another destination only if it has fewer than are free. So one sender
    can take half of all destinations, and several senders leave as many free as each has.
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
        """Allow `limit` destinations; `stores` are the worker's own partitions, `reports` are of all partitions.

        `now` returns seconds. With `shared`, several senders share the limit.
        """
        self.limit, self._stores, self._reports, self._now = limit, stores, reports, now
        self._shared = shared
        #: Destinations that have pending messages; each count makes a new set.
        self.known: set[str] = set()
        #: By sender: the destinations known by name, and the largest number in a report.
        self._of, self._elsewhere_of = dict[str, set[str]](), dict[str, int]()
        self._elsewhere, self._counted_s = 0, float("-inf")

    def __contains__(self, name: str) -> bool:
        """Return whether a destination is known to have pending messages."""
        return name in self.known

    def admit(self, name: str, sender: str) -> Lack | None:
        """Count a destination of a sender; return the reason if it is new and there is no room for it, else None."""
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
        """Return the number of destinations for which a sender has pending messages."""
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
