"""Checks the clocks of this worker, and of all workers by their reports, against the brokers' clock."""

from collections.abc import Iterator

from app.base.clock import ALARM_MS, FAST_MS
from app.engine.reports.reader import STALE_AFTER_MS
from app.ops.doctor.facts import Facts
from app.ops.doctor.finding import Finding

CHECK = "clock"
#: A report may take this long: a clock that is behind by less looks the same as a slow broker.
_SLOW_MS = 1_000


def check(facts: Facts) -> Iterator[Finding]:
    """Yield how far each worker's clock is off, by the times when the brokers appended its reports."""
    offsets: dict[str, list[int]] = {}
    for report in facts.reports.values():
        if report.progress.state is None and facts.now_ms - report.appended_ms <= STALE_AFTER_MS:
            offsets.setdefault(report.progress.worker, []).append(report.progress.at_ms - report.appended_ms)
    for worker, ahead in sorted(offsets.items()):
        if worker != facts.own_url or facts.clock is None:
            yield _judged(worker, max(ahead) if max(ahead) > 0 else min(0, max(ahead) + _SLOW_MS))
    if facts.clock is not None:
        yield _judged(facts.own_url, facts.clock.offset_ms)
        yield from _jumps(facts.own_url, facts.clock.jumps)


def _judged(worker: str, offset_ms: int) -> Finding:
    off = f"the clock of {worker} is {offset_ms:+d} ms off the brokers'"
    if offset_ms > FAST_MS:
        sentence = (
            f"{off}, so it delivers nothing: deliveries would be early. Check NTP on the worker and on the brokers."
        )
        return Finding("error", CHECK, worker, sentence)
    if abs(offset_ms) >= ALARM_MS:
        late = "deliveries are late by that" if offset_ms < 0 else "deliveries are early by that"
        return Finding("warning", CHECK, worker, f"{off}: {late}. Check NTP on the worker and on the brokers.")
    return Finding("ok", CHECK, worker, f"the clock of {worker} agrees with the brokers'.")


def _jumps(worker: str, jumps: int) -> Iterator[Finding]:
    if jumps:
        sentence = (
            f"the clock of {worker} has jumped {jumps} time(s) since the worker started. Let NTP slew the clock, "
            "not step it, and check whether the machine was suspended."
        )
        yield Finding("warning", CHECK, worker, sentence)
