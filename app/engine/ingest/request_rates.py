"""Requests by time: how many records namespaces may write, by the timestamps that the records have.

So nobody is punished for an outage of the workers: what was written at a moderate rate is read at any. A recurring
message is one request, so its deliveries are held to the same rate, by the time at which they are made.
"""

from collections.abc import Callable, Container, Mapping
from typing import Protocol

from punctual.contract.namespaces import Namespaces
from punctual.contract.rate import Rate
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal, Request

#: Rates hold for spans of so long at least: in less, other workers' reports are not here.
WINDOW_MS = 10_000
#: Spans that are remembered of a namespace; partitions may be read at different times after an outage.
_REMEMBERED = 1_000
#: Of each partition, so many spans are told to others: the last ones. Spans of deliveries have a mark before them.
_TOLD, _DELIVERIES = 2, "="


class _RateProgress(Protocol):
    @property
    def requests(self) -> Mapping[str, Mapping[str, int]]: ...


class RateReport(Protocol):
    """What another worker has told of a partition."""

    @property
    def progress(self) -> _RateProgress:
        """What it says."""
        ...


Spans = dict[int, dict[int, int]]


class _Limit:
    """What one namespace may write in each span of time."""

    def __init__(self, rate: Rate) -> None:
        self.window_ms = max(WINDOW_MS, round(1_000 * max(rate.burst, 1) / rate.per_s))
        self.most = max(1, round(rate.per_s * self.window_ms / 1_000))
        #: By span and partition, how many records were let through, and how many occurrences were delivered.
        self.taken: Spans = {}
        self.delivered: Spans = {}


class _Seen:
    """How far an input partition has been counted, and what of it was over."""

    __slots__ = ("latest_ms", "offset", "over")

    def __init__(self) -> None:
        self.offset, self.latest_ms, self.over = -1, -1, set[int]()


class RequestRates:
    """Counts the records of inputs with a namespace that has a rate; one worker has one."""

    def __init__(
        self,
        namespaces: Namespaces,
        rates: Mapping[str, Rate],
        owned: Container[int],
        reports: Mapping[int, RateReport],
    ) -> None:
        """Hold namespaces to `rates`; `owned` are the worker's own partitions, `reports` are those of all."""
        self._limits = {name: _Limit(rate) for name, rate in rates.items()}
        self._rates, self._owned, self._reports = rates, owned, reports
        self._namespaces = namespaces
        self._seen: dict[tuple[str, int], _Seen] = {}

    def limited(
        self, decode: Callable[[Record], Request], topic: str, number: int, first: int, latest_ms: int
    ) -> Callable[[Record], Request]:
        """Return what decodes records of a topic's partition, from the offset `first` on, and refuses too many.

        A record counts for the latest time that its partition has shown, at most `latest_ms`, and once, however often
        it is read.
        """
        name = self._namespaces.of_topic(topic)
        limit = self._limits.get(name)
        if limit is None:
            return decode
        seen = self._seen.setdefault((topic, number), _Seen())
        seen.over = {offset for offset in seen.over if offset >= first}
        elsewhere: dict[int, int] = {}

        def decoded(record: Record) -> Request:
            if record.offset > seen.offset:
                seen.offset = record.offset
                seen.latest_ms = max(seen.latest_ms, min(record.timestamp, latest_ms))
                window = seen.latest_ms // limit.window_ms
                if window not in elsewhere:
                    elsewhere[window] = self._elsewhere(name, str(window))
                if not _take(limit.taken, number, window, limit.most - elsewhere[window]):
                    seen.over.add(record.offset)
            if record.offset in seen.over:
                raise Refusal(Reason.QUOTA, self._sentence(name, limit))
            return decode(record)

        return decoded

    def waits(self, id_: str, now_ms: int) -> int | None:
        """Return until when an occurrence of a series has to wait, None if it may be delivered."""
        name = self._namespaces.of_id(id_)
        limit = self._limits.get(name)
        if limit is None:
            return None
        window = now_ms // limit.window_ms
        delivered = sum(limit.delivered.get(window, {}).values())
        if delivered + self._elsewhere(name, f"{_DELIVERIES}{window}") < limit.most:
            return None
        return (window + 1) * limit.window_ms

    def deliver(self, number: int, id_: str, now_ms: int) -> None:
        """Count an occurrence of a series that is delivered from a partition."""
        limit = self._limits.get(self._namespaces.of_id(id_))
        if limit is not None:
            _take(limit.delivered, number, now_ms // limit.window_ms, limit.most)

    def told(self, number: int) -> dict[str, dict[str, int]]:
        """Return what others are told of a partition: by namespace, its last spans and what it has let through."""
        found: dict[str, dict[str, int]] = {}
        for name, limit in self._limits.items():
            told = {
                f"{mark}{window}": spans[window][number]
                for mark, spans in (("", limit.taken), (_DELIVERIES, limit.delivered))
                for window in sorted(spans)[-_TOLD:]
                if number in spans[window]
            }
            if told:
                found[name] = told
        return found

    def _elsewhere(self, name: str, span: str) -> int:
        told = (
            report.progress.requests.get(name, {})
            for number, report in self._reports.items()
            if number not in self._owned
        )
        return sum(spans.get(span, 0) for spans in told)

    def _sentence(self, name: str, limit: _Limit) -> str:
        return (
            f"the namespace {name} has sent the maximum of {limit.most:,} messages and commands in "
            f"{limit.window_ms / 1_000:g} s (DELAY_QUOTAS). Send it again later, or raise the quota."
        )


def _take(spans: Spans, number: int, window: int, most: int) -> bool:
    """Count one more of a partition in a span, if there is room for `most` here."""
    taken = spans.get(window)
    if taken is None:
        taken = spans[window] = {}
        if len(spans) > _REMEMBERED:
            for oldest in sorted(spans)[: -_REMEMBERED // 2]:
                del spans[oldest]
    if sum(taken.values()) >= most:
        return False
    taken[number] = taken.get(number, 0) + 1
    return True
