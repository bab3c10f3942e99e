"""Counts of a bulk request: messages by destination and due time, and rejected rows by reason."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

_MINUTE_MS = 60_000
#: Epoch seconds of our time, read as milliseconds, are before this: in March 1973.
_SECONDS_MS = 10**11
_DESTINATIONS = 20


@dataclass(frozen=True)
class Overview:
    """The counts of a bulk request.

    Attributes:
        destinations: messages by destination.
        reasons: rejected rows by reason.
        overdue: messages that are already due.
        ancient: messages due before March 1973, whose due times are probably seconds.
        bins: messages by future due time, keyed by the begin of their bin.
        width_ms: the width of a bin.
    """

    destinations: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    overdue: int = 0
    ancient: int = 0
    bins: dict[int, int] = field(default_factory=dict)
    width_ms: int = _MINUTE_MS

    @classmethod
    def of(cls, requests: DataFrame, now_ms: int, span: Mapping[str, int | None] | None = None) -> "Overview":
        """Count requests by their columns to, due_ms and reason.

        `span` has the values of `span_of`, if the caller has observed them, which saves a pass.
        """
        future, late = future_of(now_ms), F.col("due_ms") <= now_ms
        if span is None:
            span = requests.agg(*span_of(now_ms)).head().asDict()  # type: ignore[union-attr, unused-ignore]
        first, last = span["first"], span["last"]
        width = _MINUTE_MS if first is None or last is None else bin_width_ms(first, last)
        begin = (future - F.pmod(future, F.lit(width))).alias("begin")
        ancient = (F.col("due_ms") < _SECONDS_MS).alias("ancient")
        to = F.when(F.col("reason").isNull(), F.col("to")).alias("to")
        destinations, reasons, bins, overdue, past = Counter[str](), Counter[str](), Counter[int](), 0, 0
        for each in requests.groupBy("reason", to, late.alias("late"), ancient, begin).count().collect():
            if each["reason"] is not None:
                reasons[each["reason"]] += each["count"]
                continue
            destinations[each["to"]] += each["count"]
            overdue += each["count"] * each["late"]
            past += each["count"] * each["ancient"]
            if each["begin"] is not None:
                bins[each["begin"]] += each["count"]
        return cls(destinations, reasons, overdue, past, dict(bins), width)

    @property
    def messages(self) -> int:
        """The number of valid messages."""
        return self.destinations.total()

    @property
    def rejected(self) -> int:
        """The number of rejected rows."""
        return self.reasons.total()

    def lines(self) -> Iterator[str]:
        """Yield the lines of a report with all counts."""
        yield f"{self.messages:,} messages" + (f", {self.overdue:,} of them already due" if self.overdue else "")
        if self.ancient:
            yield f"{self.ancient:,} are due before 1973. If these are seconds, use --at 'timestamp_seconds(COLUMN)'."
        if self.messages:
            yield from ("", f"{'destination':<50}  {'messages':>13}")
            for to, count in self.destinations.most_common(_DESTINATIONS):
                yield f"{to:<50}  {count:>13,}"
            others = self.destinations.most_common()[_DESTINATIONS:]
            if others:
                yield f"{f'{len(others):,} others':<50}  {sum(count for _, count in others):>13,}"
            yield ""
            yield from self.when()
        if self.reasons:
            yield from ("", f"{'rejected':<50}  {'rows':>13}")
            for reason, count in self.reasons.most_common():
                yield f"{reason:<50}  {count:>13,}"

    def when(self) -> Iterator[str]:
        """Yield the lines of a chart of due times."""
        yield f"{'due (UTC)':<16}  {'messages':>13}"
        yield from bars(self.bins, self.width_ms, self.overdue)


def future_of(now_ms: int) -> Column:
    """Return the due time of a valid request that is not due yet; otherwise null."""
    return F.when(F.col("reason").isNull() & (F.col("due_ms") > now_ms), F.col("due_ms"))


def span_of(now_ms: int) -> tuple[Column, Column]:
    """Return the first and the last future due time, as aggregates of requests."""
    return F.min(future_of(now_ms)).alias("first"), F.max(future_of(now_ms)).alias("last")


_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
#: Familiar widths of bins; wider bins are multiples of 90 days.
_WIDTHS = (
    *(each * _MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * _HOUR for each in (1, 2, 3, 6, 12)),
    *(each * _DAY for each in (1, 2, 7, 14, 30, 90)),
)
_MOST, _BAR = 24, 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bin_width_ms(first_ms: int, last_ms: int) -> int:
    """Return the smallest familiar width of bins with which at most 24 bins cover the two times."""
    fitting = (width for width in _WIDTHS if last_ms // width - first_ms // width < _MOST)
    return next(fitting, -(-(last_ms - first_ms + 1) // (_MOST - 1) // (90 * _DAY)) * 90 * _DAY)


def bars(bins: Mapping[int, int], width: int, overdue: int = 0) -> Iterator[str]:
    """Yield a bar for each bin of `width`, empty bins included; `bins` are counts, keyed by the begin of a bin."""
    most = max(overdue, *bins.values(), 1) if bins else max(overdue, 1)
    if overdue:
        yield _line("already due", overdue, most)
    if bins:
        for begin in range(min(bins), max(bins) + 1, width):
            yield _line(_time(begin), bins.get(begin, 0), most)


def _line(name: str, count: int, most: int) -> str:
    bar = "#" * -(-count * _BAR // most)
    return f"{name:<16}  {count:>13,}  {bar}".rstrip()


def _time(at_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M")
