"""Puts numbers and times into words for people, the same words on all pages."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from app.engine.due.lateness import BOUNDS
from app.engine.reports.overdue import GRACE_MS
from app.serve.web.answers import runs_of
from punctual.durations import SECOND_MS, duration, exact, moment, relative

DASH: Final = "\N{EN DASH}"
KIB: Final = 1024
#: From this value on, tenths are noise.
_WHOLE: Final = 100
#: A worker reports each second, so a message that is due in a report has had this long to be delivered.
REPORTED_MS: Final = 1_000
_FIELDS: Final = {
    "to": "destination",
    "id_prefix": "ID begins with",
    "due_to": "due until",
    "due_to_ms": "due until",
    "written_to": "written until",
    "written_to_ms": "written until",
    "source": "source topic",
}
_CLOCK_ALONE_MS: Final = 20 * 3_600 * SECOND_MS


def number(count: int) -> str:
    """Return the exact count with thousands separators: 1,234,567."""
    return f"{count:,}"


def measure(value: float) -> str:
    """Return a measured value with as many digits as people read: 0.25, 33.5, 1,204."""
    if value < 1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:,.1f}".removesuffix(".0")


def counted(count: int, noun: str) -> str:
    """Return the count with its noun, in the plural unless it is one: 1 partition, 16 partitions."""
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {noun}s"


def iso(moment_ms: int) -> str:
    """Return a time in the format of HTML's `datetime`: 2026-05-04T13:37:00Z; "" beyond the year 9999."""
    try:
        return f"{datetime.fromtimestamp(moment_ms // SECOND_MS, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):
        return ""


def local(moment_ms: int, zone: str) -> str:
    """Return a time by the clocks of an IANA zone, with its offset from UTC: Mon 4 May 2026 15:37:00 +02:00."""
    try:
        local_time = datetime.fromtimestamp(moment_ms // SECOND_MS, ZoneInfo(zone))
    except (OverflowError, ValueError, OSError, KeyError):
        return moment(moment_ms)
    offset = f"{local_time:%z}"
    return f"{local_time:%a} {local_time.day} {local_time:%b %Y %H:%M:%S} {offset[:3]}:{offset[3:]}"


def short(moment_ms: int, now_ms: int) -> str:
    """Return a time for an axis: the time alone within a day of now, else the date too, in UTC."""
    text = moment(moment_ms).removesuffix(" UTC")
    if abs(moment_ms - now_ms) < _CLOCK_ALONE_MS:
        return text[-len("13:37:00") :]
    return text.removesuffix(":00").removesuffix(" 00:00")


def clock(moment_ms: int, now_ms: int) -> str:
    """Return a time in UTC, without its date if that is within a day of now: at 13:37:00 UTC."""
    text = short(moment_ms, now_ms)
    return f"at {text} UTC" if len(text) == len("13:37:00") else moment(moment_ms)


def next_due(moment_ms: int, now_ms: int) -> str:
    """Return when the next message is due, "now" while it is still on time: in 3 s, now, 20 s ago."""
    return "now" if 0 <= now_ms - moment_ms <= GRACE_MS + REPORTED_MS else relative(moment_ms, now_ms)


def field(name: str) -> str:
    """Return the label of a filter's field, which has another name in the API: destination, ID begins with."""
    return _FIELDS.get(name) or name.removesuffix("_ms").replace("_", " ")


def moments(from_ms: int, to_ms: int) -> str:
    """Return a span of time: 4 May 2026 13:37:00 to 13:38:00 UTC."""
    first, last = moment(from_ms).removesuffix(" UTC"), moment(to_ms)
    day = first[: -len("13:37:00")]
    return f"{first} to {last.removeprefix(day)}"


def schedule(row: Mapping[str, str]) -> str:
    """Return when a recurring message is delivered: `0 8 * * *`, `every 5 min`."""
    every_ms = row.get("every", "")
    return f"every {exact(int(every_ms))}" if every_ms.isdecimal() else row.get("cron", every_ms)


def size(count: int) -> str:
    """Return a number of bytes: 812 bytes, 64.0 KiB."""
    if count < KIB:
        return counted(count, "byte")
    return f"{count / KIB:,.1f} KiB"


def percentile(deliveries: int, at_most_ms: float | None) -> str:
    """Return a percentile as its upper bound: ≤ 10 ms, > 22 h; a dash without deliveries."""
    if deliveries == 0:
        return DASH
    return f"> {_bound(BOUNDS[-1])}" if at_most_ms is None else f"≤ {_bound(at_most_ms)}"


def partitions(numbers: list[int]) -> str:
    """Return partition numbers with runs joined by a dash: 0 to 3, 7."""
    return ", ".join(str(first) if first == last else f"{first}{DASH}{last}" for first, last in runs_of(numbers))


def _bound(bound_ms: float) -> str:
    return f"{bound_ms:g} ms" if bound_ms < SECOND_MS else duration(int(bound_ms))
