"""Paused destinations get no messages, and the others at most their rate limit."""

from collections.abc import Iterator

from tests.simulation.evidence import Copy, Evidence
from tests.simulation.order import chosen_s

#: A worker that lives on and can reach its brokers obeys within that time.
_OBEYS_S = 1.0
#: Faults that leave each partition to one worker at a time, and let it go on.
_HARMLESS = frozenset({"crash", "restart", "rebalance", "one more worker", "lag", "load"})
_KEPT_S = 0.2


def disobeyed(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each delivery to a destination that its worker had to know as paused."""
    said = evidence.world.controls
    if not said:
        return
    for source, copies in evidence.copies.items():
        if source not in evidence.asks:
            continue
        number = evidence.world.home(evidence.asks[source])
        for copy in copies:
            at_s = chosen_s(evidence, copy)
            known_s = _known_s(evidence, copy, number, at_s)
            last = [one for one in said if one.to == copy.record.topic and one.at_s < known_s]
            later = [one for one in said if one.to == copy.record.topic and known_s <= one.at_s <= at_s]
            if at_s >= 0 and last and not later and last[-1].pauses(at_s):
                yield f"{copy} was chosen at {at_s:.3f} s, and {last[-1]} was known since {known_s:.3f} s"


def _known_s(evidence: Evidence, copy: Copy, number: int, at_s: float) -> float:
    """Return up to when a worker must know all controls that it goes by when it chooses a message at `at_s`."""
    since_s = evidence.began(copy.sent, number)
    return max(since_s, at_s - _OBEYS_S) if evidence.calm else since_s


def too_fast(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each span in which a destination got more than its rate limit."""
    world, settings = evidence.world, evidence.world.settings
    records = any(said.value is not None and "rate" in said.value for said in world.controls)
    if records or not settings.destinations.rates or any(fault.kind not in _HARMLESS for fault in world.plan.faults):
        return
    for to, rate in settings.destinations.rates.items():
        copies = [copy for found in evidence.copies.values() for copy in found if copy.record.topic == to]
        sent = sorted((chosen_s(evidence, copy), copy.sent.worker) for copy in copies)
        kept = rate.per_s * _KEPT_S + rate.burst
        for first, (begin_s, _) in enumerate(sent):
            for last in range(first + 1, len(sent)):
                span_s, workers = sent[last][0] - begin_s, {worker for _, worker in sent[first : last + 1]}
                most = rate.per_s * span_s + kept + 1 + len(workers)
                if begin_s >= 0 and last - first + 1 > most:
                    yield f"{to} got {last - first + 1} messages in {span_s:.3f} s from {begin_s:.3f} s on"
                    return
