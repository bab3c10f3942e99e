"""A worker does not send messages again that had arrived before it got the partition, unless a fault blinded it."""

from collections.abc import Collection, Iterator

from tests.simulation.evidence import Evidence

#: Faults that keep a worker from reading the ends of destinations in time, or from seeing due messages.
_BLINDING = {"node down", "leader", "refuse", "hold", "load", "lag", "clock"}


#: Commands that move an occurrence to a due time that another one may have had. Both look the same at the destination,
#: so the next owner does not look for a moved one (docs/explanation/guarantees.md#duplicates).
_MOVING = {"deliver-now", "reschedule"}


def sent_again(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each copy of a message that had already arrived when the copy's worker got the
    partition."""
    if not is_clear(evidence):
        return
    moved = set(_moved(evidence))
    for source, copies in evidence.copies.items():
        ask = evidence.asks.get(source)
        if ask is None or ask.over_http or len(copies) == 1:
            continue
        for copy in copies:
            if (source, copy.due_ms) in moved:
                continue
            began_s = evidence.began(copy.sent, evidence.world.home(ask))
            if any(one.due_ms == copy.due_ms and evidence.seconds(one.at_ms) < began_s for one in copies):
                yield f"{copy} was sent again: it had arrived before"


def is_clear(evidence: Evidence, other: Collection[str] = ()) -> bool:
    """Return whether no fault keeps workers from their checks before they fire, and there is no `other` fault."""
    plan = evidence.world.plan
    clear = not (plan.weather.lost or plan.weather.unanswered or plan.weather.error)
    return clear and not any(fault.kind in _BLINDING or fault.kind in other for fault in plan.faults)


def _moved(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Return the sources of recurring messages with the due times that commands have moved an occurrence to."""
    for event in evidence.events:
        ask, by = evidence.asks.get(event["source"]), evidence.asks.get(event.get("by", ""))
        if event["event"] == "rescheduled" and ask is not None and ask.recurs and by is not None and by.op in _MOVING:
            yield event["source"], event["due"]
