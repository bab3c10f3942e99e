"""Recurring messages: the headers of requests, and those for the rest (docs/reference/recurring-messages.md)."""

import re
from collections.abc import Mapping
from typing import Final

from punctual.contract import cron
from punctual.contract import headers as names
from punctual.contract.dialects.fields import parsed
from punctual.contract.recurrence import SHORTEST_MS, Misfire, Recurrence
from punctual.contract.request import Reason, Refusal, Request
from punctual.contract.times import parse_duration, parse_time, write_time
from punctual.contract.zones import UTC, parse_zone

#: Exclusive maximum of times and spans.
_LATEST_MS: Final = 1 << 51
#: The maximum bytes of a series' id; the rest is for the suffix of an occurrence.
ID_BYTES: Final = 240

_MISFIRES: Final[dict[str, Misfire]] = {
    "skip": "catch-up-last",
    "catch-up": "catch-up",
    "catch-up-last": "catch-up-last",
}
#: The default maximum lateness of `skip`.
_SKIP_MS: Final = 60_000
_COUNT: Final = re.compile(r"[1-9]\d{0,8}", re.ASCII)
#: Headers that cannot be combined with a recurrence.
_ALONE: Final = (names.RETRY, names.MAX_ATTEMPTS, names.ATTEMPT, names.NO_LATER, names.DEDUPE)


def begin(request: Request, headers: Mapping[str, str], at_ms: int | None) -> None:
    """Make a request the first occurrence of a series, from `at_ms` on if that is given. Raises Refusal."""
    beside = next((name for name in _ALONE if name in headers), None)
    if beside is not None:
        kind = names.CRON if names.CRON in headers else names.EVERY
        raise Refusal(Reason.MALFORMED, f"{beside} and {kind} cannot be combined. Leave one of them out.")
    if len(request.id.encode()) > ID_BYTES:
        sentence = (
            f"the id of a recurring message can have at most {ID_BYTES} bytes, because each occurrence appends its due "
            "time. Shorten it."
        )
        raise Refusal(Reason.BAD_ID, sentence)
    request.recurrence, request.planned_ms = decode(headers, request.stamp_ms, at_ms)
    request.due_ms = request.planned_ms
    request.says_when = at_ms is not None and at_ms != _unsaid(headers, request.asked_at_ms)


def _unsaid(headers: Mapping[str, str], asked_at_ms: int | None) -> int | None:
    """Return when a series without a requested beginning would begin; a gateway writes this into requests it keeps."""
    try:
        return None if asked_at_ms is None else decode(headers, asked_at_ms, None)[1]
    except Refusal:  # it would have no occurrence
        return None


def is_possible(recurrence: Recurrence) -> bool:
    """Return whether headers can describe a recurrence."""
    spans = (
        *(recurrence.anchor_ms, recurrence.every_ms, recurrence.until_ms),
        *(recurrence.window_ms, recurrence.jitter_ms),
    )
    try:
        if recurrence.zone is not None:
            parse_zone(recurrence.zone)
        known = recurrence.cron is None or cron.parse(recurrence.cron) == recurrence.cron
    except ValueError:
        return False
    return (
        known
        and (recurrence.cron is None) != (recurrence.every_ms is None)
        and (recurrence.every_ms is None or recurrence.every_ms >= SHORTEST_MS)
        and (recurrence.count is None or recurrence.count > 0)
        and all(span is None or 0 <= span < _LATEST_MS for span in spans)
    )


def decode(headers: Mapping[str, str], stamp_ms: int, at_ms: int | None) -> tuple[Recurrence, int]:
    """Return the recurrence in a request's headers, and the time of its first occurrence. Raises Refusal.

    `at_ms` is the requested due time, if any: no occurrence is planned before it, and an interval is counted from it.
    Otherwise the first occurrence is the first after `stamp_ms`, with an interval one interval after it.
    """
    every, schedule = headers.get(names.EVERY), headers.get(names.CRON)
    if every is not None and schedule is not None:
        raise Refusal(Reason.AMBIGUOUS_DUE, f"{names.EVERY} and {names.CRON} are both given. Send one of them.")
    if every is None and schedule is None:
        given = next(name for name in sorted(names.RECURRENCE) if name in headers)
        raise Refusal(
            Reason.MALFORMED, f"{given} needs {names.EVERY} or {names.CRON}, which says when the message recurs."
        )
    every_ms = None if every is None else parsed(names.EVERY, every, _interval)
    anchor_ms = 0
    if every_ms is not None:
        anchor_ms = stamp_ms + every_ms if at_ms is None else at_ms
    misfire, window_ms = parsed(names.MISFIRE, headers.get(names.MISFIRE, "catch-up-last"), _misfire)
    recurrence = Recurrence(
        every_ms=every_ms,
        cron=None if schedule is None else parsed(names.CRON, schedule, cron.parse),
        anchor_ms=anchor_ms,
        zone=_zone(headers),
        until_ms=parsed(names.UNTIL, headers[names.UNTIL], parse_time) if names.UNTIL in headers else None,
        count=parsed(names.COUNT, headers[names.COUNT], _count) if names.COUNT in headers else None,
        misfire=misfire,
        window_ms=window_ms,
        jitter_ms=parsed(names.JITTER, headers[names.JITTER], parse_duration) if names.JITTER in headers else None,
    )
    first_ms = recurrence.after(stamp_ms if at_ms is None else at_ms - 1)
    if first_ms is None:
        raise Refusal(Reason.MALFORMED, _never(headers))
    return recurrence, first_ms


def write(recurrence: Recurrence, number: int = 1) -> list[tuple[str, str]]:
    """Return the headers for the rest of a series, from its occurrence `number` on, the first being 1.

    The caller adds the time of that occurrence in `names.AT`.
    """
    window_ms, count = recurrence.window_ms, recurrence.count
    misfire = recurrence.misfire if window_ms is None else f"{recurrence.misfire} {window_ms}"
    headers = [
        (names.EVERY, None if recurrence.every_ms is None else str(recurrence.every_ms)),
        (names.CRON, recurrence.cron),
        (names.ZONE, recurrence.zone),
        (names.UNTIL, None if recurrence.until_ms is None else write_time(recurrence.until_ms)),
        (names.COUNT, None if count is None else str(count - number + 1)),
        (names.MISFIRE, misfire),
        (names.JITTER, None if recurrence.jitter_ms is None else str(recurrence.jitter_ms)),
    ]
    return [(name, value) for name, value in headers if value is not None]


def _interval(text: str) -> int:
    every_ms = parse_duration(text)
    if every_ms < SHORTEST_MS:
        msg = f"{text[:64]!r} is less than a second, which is the minimum interval"
        raise ValueError(msg)
    return every_ms


def _zone(headers: Mapping[str, str]) -> str | None:
    if names.ZONE not in headers:
        return None
    if names.EVERY in headers:
        sentence = f"{names.ZONE} works only with {names.CRON}: an interval does not depend on the zone. Leave it out."
        raise Refusal(Reason.MALFORMED, sentence)
    zone = parsed(names.ZONE, headers[names.ZONE], parse_zone)
    return None if zone == UTC else zone


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        msg = f"{text[:64]!r} is not a count of occurrences. Use a whole number, 1 or more, in ASCII digits"
        raise ValueError(msg)
    return int(text)


def _misfire(text: str) -> tuple[Misfire, int | None]:
    policy, *windows = text.split(" ", 1)
    if policy not in _MISFIRES:
        policies = ", ".join(_MISFIRES)
        msg = f"{text[:64]!r} is not a policy. Use one of {policies}, and optionally a maximum lateness after it: "
        raise ValueError(msg + "catch-up PT1H")
    window_ms = parse_duration(windows[0]) if windows else None
    if window_ms == 0:
        msg = f"{text[:64]!r} delivers nothing, because every message is a little late. Use a longer window"
        raise ValueError(msg)
    return _MISFIRES[policy], _SKIP_MS if window_ms is None and policy == "skip" else window_ms


def _never(headers: Mapping[str, str]) -> str:
    if names.UNTIL in headers:
        return f"{names.UNTIL}: {headers[names.UNTIL][:64]!r} is before the first occurrence. Use a later time."
    return f"{names.CRON}: {headers[names.CRON][:64]!r} never occurs. Use a schedule that does."
