"""The rule of a series in its row: its schedule, its zone, and the format that older workers write."""

import logging
from functools import lru_cache

import msgspec

from app.engine.steps import plan
from app.engine.steps.plan import PAUSED_MS, Rule
from punctual.contract import cron
from punctual.contract.recurrence import Recurrence
from punctual.contract.zones import fixed_zone, parse_zone
from tables import Series

log = logging.getLogger(__name__)

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Rule)


@lru_cache(maxsize=10_000)
def _rule(raw: bytes) -> Rule:
    rule = _decoder.decode(raw)
    if rule.zone is None:
        return rule
    try:
        parse_zone(rule.zone)
    except ValueError:  # the worker that accepted it had other zones
        zone = None if rule.offset_s is None else fixed_zone(rule.offset_s)
        sentence = (
            "the time zone %s of a recurring message is unknown on this machine, so %s is used instead. Update tzdata"
        )
        log.error(sentence, rule.zone, zone or "UTC")  # noqa: TRY400 - the trace says nothing
        return msgspec.structs.replace(rule, zone=zone)
    return rule


def rule_of(series: Series) -> Rule:
    """Return the schedule of a series."""
    return _rule(series.rule)


def begun(rule: Recurrence, planned_ms: int) -> Series:
    """Return a series whose first occurrence is planned at `planned_ms`."""
    if rule.zone is None:
        return Series(_encode(rule), planned_ms)
    return Series(_encoded(_located(Rule(*msgspec.structs.astuple(rule)), planned_ms)), planned_ms)


def with_rule(series: Series, rule: Rule, planned_ms: int, number: int) -> Series:
    """Return a series with another rule; an unchanged rule keeps the bytes that its first worker wrote."""
    if rule.zone is not None:
        rule = _located(rule, planned_ms)
    known = rule_of(series)
    if rule == known:
        return Series(series.rule, planned_ms, number)
    if rule.zone == known.zone:  # a zone that is unknown here stays for the workers that know it
        rule = msgspec.structs.replace(rule, zone=_decoder.decode(series.rule).zone)
    return Series(_encoded(rule), planned_ms, number)


def _located(rule: Rule, planned_ms: int) -> Rule:
    """Return a rule with the zone's UTC offset at a planned time, for workers with other zone rules."""
    offset_s = None if (schedule := schedule_of(rule)) is None else schedule.offset(planned_ms // 1000)
    return rule if offset_s == rule.offset_s else msgspec.structs.replace(rule, offset_s=offset_s)


def schedule_of(rule: Recurrence) -> cron.Schedule | None:
    """Return the schedule of a rule whose times depend on a zone's rules; None for UTC, an interval, or no zone."""
    if rule.cron is None or rule.zone is None:
        return None
    try:
        schedule = cron.schedule(rule.cron, rule.zone)
        schedule.offset(0)
    except LookupError:  # the zone is not known here
        return None
    return schedule


def planned_here(series: Series) -> int | None:
    """Return the planned time of a series' occurrence by this worker's rules of its zone.

    None if it has no zone, or if these rules plan no such time before its end.
    """
    rule, extra = rule_of(series), is_between(series)
    planned_ms, schedule = series.planned_ms + extra, schedule_of(rule)
    if schedule is None or planned_ms % 1000:
        return None
    planned = schedule.replanned(planned_ms // 1000, rule.offset_s)
    if planned is None or (
        planned * 1000 != planned_ms and rule.until_ms is not None and planned * 1000 > rule.until_ms
    ):
        return None
    if planned * 1000 == planned_ms:
        return series.planned_ms
    closed = tuple(span for span in rule.held if span[1] != PAUSED_MS)
    here_ms = plan.after(msgspec.structs.replace(rule, held=closed), planned * 1000 - 1)
    return None if here_ms is None else here_ms - extra


def is_between(series: Series) -> bool:
    """Return whether the occurrence of a series in a zone is an extra one: its time is just before a planned one."""
    return series.planned_ms % 1000 != 0


def _encoded(rule: Rule) -> bytes:
    """Return the bytes of a rule, without the trailing fields that are not used, which older workers do not know."""
    fields = msgspec.structs.astuple(rule)
    added = (rule.held or None, rule.offset_s, rule.kept)
    unused = next((place for place, field in enumerate(reversed(added)) if field is not None), len(added))
    return _encode(fields[: len(fields) - unused])
