"""Time zones as stretches of time with a constant offset from UTC, in epoch seconds."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from operator import attrgetter
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

UTC: Final = "UTC"

#: Stretches are computed for ranges of 2^25 seconds, 388 days.
_SPAN_BITS: Final = 25
#: No zone has changed twice within six days since 1970 (tzdata 2026f), so steps of five days find each change.
_STEP_S: Final = 5 * 86_400
_SECOND: Final = timedelta(seconds=1)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
#: Names on some machines that are not zones for messages: the machine's own, none, and those with leap seconds.
_NO_ZONE: Final = re.compile(r"localtime|posixrules|Factory|(posix|right)/.*", re.IGNORECASE)
#: The maximum length: the longest name has 32 letters, and a longer text is refused without a search.
_LETTERS: Final = 40
#: Offsets in human form. The names of zones with a fixed offset have the opposite sign: Etc/GMT-5 is UTC+5.
_OFFSET: Final = re.compile(r"(?:(?:etc/)?(?:gmt|utc))?([+-])0?(\d{1,2})(?::?(\d\d))?", re.IGNORECASE | re.ASCII)


class Stretch(NamedTuple):
    """The time from `start` up to `end`, in which a zone's clocks are `offset` seconds ahead of UTC.

    `reached` is what clocks would show at the start without the change that happens there: less than they do show after
    a gap, more if an hour comes twice. A time without changes may be divided into several stretches.
    """

    start: int
    end: int
    offset: int
    reached: int


_start = attrgetter("start")


def stretch_at(zone: str, moment: int) -> Stretch:
    """Return the stretch that contains the epoch second `moment`."""
    stretches = _stretches(zone, moment >> _SPAN_BITS)
    return stretches[bisect_right(stretches, moment, key=_start) - 1]


def changes_between(zone: str, begin: int, end: int) -> Iterator[Stretch]:
    """Yield the stretches that begin with a change of clocks, from `begin` up to `end`."""
    for span in range(begin >> _SPAN_BITS, (end >> _SPAN_BITS) + 1):
        for stretch in _stretches(zone, span):
            if begin <= stretch.start <= end and stretch.reached != stretch.start + stretch.offset:
                yield stretch


@lru_cache(maxsize=4096)
def _stretches(zone: str, span: int) -> list[Stretch]:
    clock = ZoneInfo(zone)
    start, end = span << _SPAN_BITS, (span + 1) << _SPAN_BITS
    offset = _offset(clock, start)
    reached = start + offset
    stretches = []
    for moment in (*range(start + _STEP_S, end, _STEP_S), end - 1):
        then = _offset(clock, moment)
        if then != offset:
            change = _change(clock, max(start, moment - _STEP_S), moment)
            stretches.append(Stretch(start, change, offset, reached))
            start, offset, reached = change, then, change + offset
    stretches.append(Stretch(start, end, offset, reached))
    return stretches


def _offset(clock: ZoneInfo, moment: int) -> int:
    offset = datetime.fromtimestamp(moment, clock).utcoffset()
    assert offset is not None
    return offset // _SECOND


def _change(clock: ZoneInfo, before: int, after: int) -> int:
    """Return the first second with the offset of `after`, which `before` does not have."""
    offset = _offset(clock, after)
    seconds = range(before, after)
    return before + bisect_right(seconds, 0, key=lambda moment: _offset(clock, moment) == offset)


def parse_zone(text: str) -> str:
    """Return the IANA name of a zone. Raises ValueError with a sentence that suggests a similar name."""
    hint = ""
    if len(text) <= _LETTERS:
        if _NAME.fullmatch(text) and not _NO_ZONE.fullmatch(text):
            try:
                return ZoneInfo(text).key
            except (ValueError, OSError, LookupError):
                pass
        near = _near(text)
        hint = f"; the nearest is {near}" if near else ""
    msg = f"{text[:64]!r} is not a known time zone{hint}. Use an IANA name such as Europe/Berlin, or UTC"
    raise ValueError(msg)


def fixed_zone(offset: int) -> str | None:
    """Return the zone whose clocks are always `offset` seconds ahead of UTC, None if there is none."""
    hours, rest = divmod(offset, 3_600)
    name = f"Etc/GMT{-hours:+d}"  # its sign is the opposite
    return None if rest or name.casefold() not in _names() else name


@lru_cache(maxsize=1024)
def _near(text: str) -> str | None:
    """Return the name of a zone that differs only in capitals, has the same city, or is spelled similarly."""
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        name = f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
        is_known = name.casefold() in _names() and int(minutes or 0) == 0 != int(hours)
        return f"{name}, which is UTC{sign}{hours}" if is_known else None
    wanted = text.casefold().replace(" ", "_")
    cities, city = _cities(), wanted.rpartition("/")[2]
    if wanted in _names():
        return _names()[wanted]
    if city in cities:
        return _names()[cities[city]]
    # Only names with the same first letter are compared: comparing with all names takes a millisecond.
    among = [name for name in (_names() if "/" in wanted else cities) if name[0] == wanted[:1]]
    if "/" in wanted:
        among = [name for name in among if name[:2] == wanted[:2]]
    alike = get_close_matches(wanted, among, 1, 0.8)
    return _names()[cities.get(alike[0], alike[0])] if alike else None


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    names = (files("tzdata") / "zones").read_text("utf-8").split()
    return {name.casefold(): name for name in names if not _NO_ZONE.fullmatch(name)}


@lru_cache(maxsize=1)
def _cities() -> dict[str, str]:
    return {name.rpartition("/")[2]: name for name in _names() if "/" in name}
