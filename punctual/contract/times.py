"""Times (RFC 3339, epoch milliseconds) and durations (15m, ISO 8601, milliseconds) in headers. Fractions round up."""

import re
from datetime import UTC, datetime, timedelta, timezone

_RFC_3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,12}))?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)
_DURATION = re.compile(
    r"P(?:(\d+)W|(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{1,12}))?S)?)?)", re.ASCII
)
_SHORT = re.compile(
    r"(?=\d)(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)(?:\.(\d{1,12}))?s)?(?:(\d+)ms)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The maximum digits of times and durations.
MAX_DIGITS = 15
#: The longest duration. As a policy it means no limit, and overrides the default of the input.
LONGEST_MS = 10**MAX_DIGITS - 1
#: Milliseconds have had 12 digits since 1973; seconds have 9 to 11 digits between 1973 and the year 5138.
DIGITS_OF_SECONDS = range(9, 12)
#: 10000-01-01, the first time that datetime does not support.
_END_MS = 253_402_300_800_000
#: More than any duration below 10^15 ms needs. Longer texts are refused without parsing.
_MAX_LETTERS = 128


def parse_time(text: str) -> int:
    """Parse a time in epoch milliseconds (ASCII digits), or in RFC 3339 with a zone.

    A leap second is the second after it. Raises ValueError with a sentence, also for a number that looks like seconds.
    """
    if text.isdigit() and text.isascii():
        if len(text) < DIGITS_OF_SECONDS.stop and len(text) in DIGITS_OF_SECONDS:
            msg = f"{text!r} looks like seconds, not epoch milliseconds. If it is seconds, use {text}000"
            raise ValueError(msg)
        return _digits(text)
    match = _RFC_3339.fullmatch(text)
    if match is None:
        msg = f"{text[:64]!r} is not a time. Use epoch milliseconds, or RFC 3339 with a zone: 2030-01-31T08:00:00Z"
        raise ValueError(msg)
    day, time, fraction, zone = match.groups()
    leap = time.endswith(":60")  # epoch time has no leap seconds
    try:
        moment = datetime.fromisoformat(f"{day}T{time[:-2]}59" if leap else f"{day}T{time}").replace(tzinfo=_zone(zone))
    except ValueError as error:
        msg = f"{text[:64]!r} is not a time: its date, hour or zone does not exist"
        raise ValueError(msg) from error
    seconds = (moment - _EPOCH) // timedelta(seconds=1) + leap
    if seconds < 0:
        msg = f"{text[:64]!r} is before 1970"
        raise ValueError(msg)
    return seconds * 1000 + _milliseconds(fraction)


def parse_seconds(text: str) -> int:
    """Parse epoch seconds in ASCII digits; return epoch milliseconds.

    Raises ValueError with a sentence, also for a number that looks like milliseconds.
    """
    if not (text.isascii() and text.isdigit()):
        msg = f"{text[:64]!r} is not a time. Use epoch seconds in ASCII digits: 1893456000"
        raise ValueError(msg)
    if len(text) >= DIGITS_OF_SECONDS.stop:
        msg = f"{text[:64]!r} looks like milliseconds or a smaller unit. Use epoch seconds"
        raise ValueError(msg)
    return int(text) * 1000


def moment_of(at_ms: int) -> datetime:
    """Return epoch milliseconds as an exact datetime. Raises ValueError beyond the year 9999."""
    if not 0 <= at_ms < _END_MS:
        msg = f"{at_ms} is not a time before the year 10000 in epoch milliseconds"
        raise ValueError(msg)
    return datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)


def write_time(due_ms: int) -> str:
    """Return epoch milliseconds in digits for parse_time: zeros keep early times from looking like seconds."""
    text = str(due_ms)
    return text.zfill(DIGITS_OF_SECONDS.stop) if len(text) in DIGITS_OF_SECONDS else text


def parse_duration(text: str) -> int:
    """Parse a duration: `15m`, `1h30m`, ISO 8601 without years and months, or digits; return milliseconds.

    The units are w, d, h, m, s and ms, the larger ones first. Raises ValueError with a sentence.
    """
    if text.isascii() and text.isdigit():
        return _digits(text)
    if len(text) > _MAX_LETTERS and text.startswith("P"):
        return bounded(10**MAX_DIGITS, text)
    match = _DURATION.fullmatch(text) or _SHORT.fullmatch(text[: _MAX_LETTERS + 1])
    if match is None or not any(match.groups()):
        msg = (
            f"{text[:64]!r} is not a duration. Use 90s, 15m, 1h30m or 5d, milliseconds, or ISO 8601 without years "
            "and months: PT15M, P30D"
        )
        raise ValueError(msg)
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:5])
    whole = (((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds
    milliseconds = int(match[7] or 0) if match.re is _SHORT else 0
    return bounded(whole * 1000 + _milliseconds(match[6]) + milliseconds, text)


def bounded(length_ms: int, text: str) -> int:
    """Return the length of the duration `text` unchanged. Raises ValueError with a sentence if it is too long."""
    if length_ms < 10**MAX_DIGITS:
        return length_ms
    msg = f"{text[:64]!r} is too long. Durations are below 10^{MAX_DIGITS} milliseconds (31,000 years)"
    raise ValueError(msg)


def _digits(text: str) -> int:
    if len(text) > MAX_DIGITS:
        msg = f"{text[:64]!r} has more than {MAX_DIGITS} digits. Give milliseconds, not a smaller unit"
        raise ValueError(msg)
    return int(text)


def _milliseconds(fraction: str | None) -> int:
    """Return a decimal fraction of a second in milliseconds, rounded up."""
    if not fraction:
        return 0
    parts: int = 10 ** len(fraction)
    return -(-int(fraction) * 1000 // parts)


def _zone(text: str) -> timezone:
    if text in "Zz":
        return UTC
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[4:6])))
