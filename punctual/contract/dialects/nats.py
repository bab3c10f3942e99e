"""The dialect of the `Nats-Schedule*` headers: the record's key is the subject of the schedule, and its id.

Its headers about schedules, expectations and lifetimes are not delivered. A delivery names the schedule that
made it, says that this one is over, and how long the message is to live.
"""

import re
from typing import Final

from punctual.contract import headers as names
from punctual.contract import nats_cron
from punctual.contract.dialects import native_headers
from punctual.contract.dialects.fields import fields, parsed
from punctual.contract.dialects.native_headers import Own
from punctual.contract.record import Record
from punctual.contract.request import Headers, Reason, Refusal, Request
from punctual.contract.times import bounded, parse_time
from punctual.contract.words import Words

SCHEDULE: Final = "Nats-Schedule"
TARGET: Final = "Nats-Schedule-Target"
TTL: Final = "Nats-Schedule-TTL"
ZONE: Final = "Nats-Schedule-Time-Zone"
SOURCE: Final = "Nats-Schedule-Source"
ROLLUP: Final = "Nats-Schedule-Rollup"
NEXT: Final = "Nats-Schedule-Next"
SCHEDULER: Final = "Nats-Scheduler"
LIVES: Final = "Nats-TTL"
ROLLS_UP: Final = "Nats-Rollup"
PURGE: Final = "purge"

WORDS: Final = Words(id="the record's key", to=TARGET, due=SCHEDULE)
_PREFIX = "nats-"
#: This dialect's headers for native recurrence headers, for sentences.
_NAMES = {names.EVERY: SCHEDULE, names.CRON: SCHEDULE, names.ZONE: ZONE, names.UNTIL: LIVES}
_STRIPPED = ("nats-schedule", "nats-expected-", "nats-msg-id", "nats-ttl", "nats-rollup")
_LIFE = re.compile(r"never|\d{1,18}|(?:\d{1,18}(?:\.\d{1,9})?(?:ns|us|µs|ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h)", re.ASCII)
#: The maximum length of a duration.
_LETTERS = 128
_UNITS_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
#: Unsupported headers, and the reasons.
_IMPOSSIBLE = {SOURCE: "the last message of another subject is not available here; send the body itself"}
#: Headers that only a recurring schedule may have.
_RECURRING = {
    ZONE: "it works only with cron; the time of @at has its own zone",
    LIVES: "it works only with recurring messages; cancel this one instead",
}


def decode(record: Record) -> Request:
    """Return the request in a record. Raises Refusal."""
    headers, users = native_headers.read(record)
    given = fields(users, _PREFIX, SCHEDULE.lower(), str.lower)
    if NEXT.lower() in given or SCHEDULER.lower() in given:
        return native_headers.request(record, WORDS, headers, _purge(given), None, None, [])
    recurs = _series(given, record.timestamp)
    due_ms = None if recurs else _due_ms(given)
    own = Own(id=native_headers.key_id(record), to=_get(given, TARGET) or None, due_ms=due_ms, recurs=recurs)
    for name, why in (_IMPOSSIBLE if recurs else _IMPOSSIBLE | _RECURRING).items():
        if name.lower() in given:
            raise Refusal(Reason.MALFORMED, f"{name}: {why}. Leave it out.")
    travelling = _travelling(record, given, users, again=bool(recurs))
    try:
        return native_headers.request(record, WORDS, headers, own, record.key, record.value, travelling)
    except Refusal as refusal:
        sentence = refusal.sentence
        for native, name in _NAMES.items() if recurs else ():
            sentence = sentence.replace(native, name)
        raise Refusal(refusal.reason, sentence) from refusal


def _get(given: dict[str, str], name: str) -> str | None:
    return given.get(name.lower())


def _purge(given: dict[str, str]) -> Own:
    """Return the parts of the cancel for the schedule that a message names."""
    subject, then = _get(given, SCHEDULER), _get(given, NEXT)
    if then != PURGE or not subject:
        raise Refusal(
            Reason.MALFORMED, f"{NEXT} must be {PURGE}, with the subject of the schedule to stop in {SCHEDULER}."
        )
    if SCHEDULE.lower() in given:
        sentence = f"{SCHEDULE} schedules a message, but {NEXT} stops one."
        raise Refusal(Reason.MALFORMED, f"{sentence} Leave one of them out.")
    if any(name.startswith("nats-expected-") for name in given):
        sentence = "Nats-Expected-*: there are no sequence numbers here."
        raise Refusal(Reason.MALFORMED, f"{sentence} Use delay-if-due to compare the due time instead.")
    return Own(id=subject, cancels=f"{NEXT} is {PURGE}")


def _due_ms(given: dict[str, str]) -> int | None:
    schedule = _get(given, SCHEDULE)
    if schedule is None:
        return None
    _, _, text = schedule.partition(" ")
    if text.isdigit():
        raise Refusal(Reason.MALFORMED, f"{SCHEDULE} is {schedule[:64]!r}: @at takes RFC 3339 with a zone.")
    return parsed(SCHEDULE, text, parse_time)


def _series(given: dict[str, str], stamp_ms: int) -> dict[str, str]:
    """Return the native headers for a recurring schedule; none if it does not recur."""
    schedule = _get(given, SCHEDULE)
    if schedule is None or schedule.startswith("@at"):
        return {}
    if schedule.startswith("@every "):
        if ZONE.lower() in given:
            raise Refusal(Reason.MALFORMED, f"{ZONE}: it works only with cron. Leave it out.")
        headers = {names.EVERY: str(parsed(SCHEDULE, schedule.removeprefix("@every "), _span_ms))}
    else:
        headers = {names.CRON: nats_cron.native(schedule)}
        if ZONE.lower() in given:
            headers[names.ZONE] = given[ZONE.lower()]
    life = _get(given, LIVES)
    if life is not None and life != "never":
        headers[names.UNTIL] = str(stamp_ms + parsed(LIVES, f"{life}s" if life.isdigit() else life, _span_ms))
    return headers


def _span_ms(text: str) -> int:
    """Return the milliseconds of a duration in Go's format, such as 1h30m. Raises ValueError with a sentence."""
    parts = _PART.findall(text) if len(text) <= _LETTERS else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        msg = f"{text[:64]!r} is not a duration. Use one such as 90s or 1h30m"
        raise ValueError(msg)
    return bounded(round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts)), text)


def _travelling(record: Record, given: dict[str, str], users: Headers, *, again: bool) -> Headers:
    """Return the headers of the delivery; a recurring one (`again`) does not say that its schedule is over."""
    made: Headers = [(SCHEDULER, record.key)]
    if not again:
        made.append((NEXT, PURGE.encode()))
    life, rollup = _get(given, TTL), _get(given, ROLLUP)
    if life is not None:
        if len(life) > _LETTERS or not _LIFE.fullmatch(life):
            sentence = f"{TTL} is {life[:64]!r}. Use seconds, a duration such as 5m, or never."
            raise Refusal(Reason.MALFORMED, sentence)
        made.append((LIVES, life.encode()))
    if rollup is not None:
        if rollup != "sub":
            raise Refusal(Reason.MALFORMED, f"{ROLLUP} is {rollup[:64]!r}. It must be sub.")
        made.append((ROLLS_UP, b"sub"))
    return [*(header for header in users if not header[0].lower().startswith(_STRIPPED)), *made]
