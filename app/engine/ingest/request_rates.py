"""Rate limits on the records that namespaces write, by the timestamps of the records.

An outage of the workers therefore costs no sender a refusal: records written below the rate are read at any speed. A
recurring message is one request, so its deliveries are limited to the same rate, by the time of delivery.
"""

from collections.abc import Callable, Container, Mapping
from typing import Protocol

from punctual.contract.namespaces import Namespaces
from punctual.contract.rate import Rate
from punctual.contract.record import Record
from punctual.contract.request import Reason, Refusal, Request

#: Minimum length of the spans in which records are counted: other workers' reports take up to a few seconds.
WINDOW_MS = 10_000
#: Spans that are remembered per namespace; partitions may be read at different times after an outage.
_REMEMBERED = 1_000
#: Number of last spans that a report has per partition, and the mark in front of spans of deliveries.
_TOLD, _DELIVERIES = 2, "="


class _RateProgress(Protocol):
    @property
    def requests(self) -> Mapping[str, Mapping[str, int]]: ...


class RateReport(Protocol):
    """Another worker's report on a partition."""

    @property
    def progress(self) -> _RateProgress:
        """The figures of the report."""
        ...


Spans = dict[int, dict[int, int]]


class _Limit:
    """The maximum number of records of one namespace in each span of time."""

    def __init__(self, rate: Rate) -> None:
        self.window_ms = max(WINDOW_MS, round(1_000 * max(rate.burst, 1) / rate.per_s))
        self.most = max(1, round(rate.per_s * self.window_ms / 1_000))
        #: By span and partition: the numbers of records let through and of occurrences delivered.
        self.taken: Spans = {}
        self.delivered: Spans = {}


class _Seen:
    """How far an input partition has been counted, and the offsets of records beyond the rate."""

    __slots__ = ("latest_ms", "offset", "over")

    def __init__(self) -> None:
        self.offset, self.latest_ms, self.over = -1, -1, set[int]()


class RequestRates:
    """Counts the records on inputs of namespaces with a rate. All partitions of a worker share one."""

    def __init__(
        self,
        namespaces: Namespaces,
        rates: Mapping[str, Rate],
        owned: Container[int],
        reports: Mapping[int, RateReport],
    ) -> None:
        """Limit namespaces to `rates`; `owned` are the worker's own partitions, `reports` are of all partitions."""
        self._limits = {name: _Limit(rate) for name, rate in rates.items()}
        self._rates, self._owned, self._reports = rates, owned, reports
        self._namespaces = namespaces
        self._seen: dict[tuple[str, int], _Seen] = {}

    def limited(
        self, decode: Callable[[Record], Request], topic: str, number: int, first: int, latest_ms: int
    ) -> Callable[[Record], Request]:
        """Return `decode` with the rate limit, for records of partition `number` of `topic` from offset `first` on.

        It raises Refusal for records beyond the rate. A record counts at the latest timestamp that its partition has
        had so far, at most `latest_ms`. It counts only once, even if it is read again.
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
        """Return until when (epoch ms) an occurrence of a series has to wait, None if it may be delivered."""
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

    def recent(self, number: int) -> dict[str, dict[str, int]]:
        """Return a partition's counts in the last spans of each kind, by namespace and span, to report to others."""
        rates: dict[str, dict[str, int]] = {}
        for name, limit in self._limits.items():
            reported = {
                f"{mark}{window}": spans[window][number]
                for mark, spans in (("", limit.taken), (_DELIVERIES, limit.delivered))
                for window in sorted(spans)[-_TOLD:]
                if number in spans[window]
            }
            if reported:
                rates[name] = reported
        return rates

    def _elsewhere(self, name: str, span: str) -> int:
        reported = (
            report.progress.requests.get(name, {})
            for number, report in self._reports.items()
            if number not in self._owned
        )
        return sum(spans.get(span, 0) for spans in reported)

    def _sentence(self, name: str, limit: _Limit) -> str:
        return (
            f"the namespace {name} has sent the maximum of {limit.most:,} messages and commands in "
            f"{limit.window_ms / 1_000:g} s (DELAY_QUOTAS). Send it again later, or raise the quota."
        )


def _take(spans: Spans, number: int, window: int, most: int) -> bool:
    """Count a record of partition `number` in the span `window`; return False if this has `most` already."""
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
