"""What had arrived before a worker had a partition is not sent again by it, unless something kept it from looking."""

from collections.abc import Iterator

from tests.simulation.evidence import Evidence

#: What keeps a worker from reading the ends of destinations in time, or from knowing what is due.
_BLINDING = {"node down", "leader", "refuse", "hold", "load", "lag", "clock"}


def sent_again(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each copy of what was there already when its worker was given the partition."""
    plan = evidence.world.plan
    clear = not (plan.weather.lost or plan.weather.unanswered or plan.weather.error)
    if not clear or any(fault.kind in _BLINDING for fault in plan.faults):
        return
    for source, copies in evidence.copies.items():
        ask = evidence.asks.get(source)
        if ask is None or ask.over_http or len(copies) == 1:
            continue
        for copy in copies:
            began_s = evidence.began(copy.sent, evidence.world.home(ask))
            if any(one.due_ms == copy.due_ms and evidence.seconds(one.at_ms) < began_s for one in copies):
                yield f"{copy} was sent again: it had arrived before"
