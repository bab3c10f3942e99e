"""Per id the last order wins, whatever partitions orders took (docs/decisions/0010): an independent oracle."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from tables import keys
from tests.simulation.bounds import Bounded
from tests.simulation.evidence import Copy, Evidence
from tests.simulation.loop import EPOCH_MS
from tests.simulation.workload import Ask

#: The outcome of a message: its request, its due time, and the time of a deliver-now command: a request that comes late
#: may be as overdue as the message that it finds.
Outcome = tuple[str, int | None, int] | None
#: A request that was read again after a crash may have another stamp; at most this many orders of an id's requests are
#: tried.
_WAYS = 16


def overtaken(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each delivery, and each message that waits, that a later order should have prevented."""
    settings = evidence.world.settings
    if settings.engine.row_version in (1, 2) or settings.retention.dedupe_window_ms:
        return  # such rows have no request time, and dropped repetitions are not commands
    bounded = Bounded(evidence)
    rows = {entry.id: (entry.source, keys.due_of(row)) for row, entry in evidence.waiting()}
    for id_, asks in evidence.by_id.items():
        if len(asks) < 2 or any(ask.said("delay-if-due") or ask.said("delay-dedupe") or ask.recurs for ask in asks):
            continue
        sorted_ways = list(itertools.islice(_ways(evidence, asks), _WAYS))
        for copy in (copy for ask in asks for copy in evidence.copies.get(ask.source, ())):
            if not any(_explains(evidence, bounded, route, copy) for route in sorted_ways):
                yield f"{copy}: there was a later order for {id_}; {_said(evidence, asks)}"
        if id_ in rows and not any(_comes_to(bounded, outcome(route), *rows[id_]) for route in sorted_ways):
            yield f"{id_} waits as {rows[id_]}; {_said(evidence, asks)}"
        yield from _missing(evidence, id_, sorted_ways, waits=id_ in rows)


def outcome(asks: Iterable[Ask]) -> Outcome:
    """Return what orders come to that are given one after the other."""
    state: Outcome = None
    for ask in asks:
        if ask.op == "schedule":
            state = (ask.source, ask.due_ms, 0)
        elif ask.op == "cancel":
            state = None
        elif state is not None:
            state = _now(ask, state) if ask.op == "deliver-now" else (state[0], ask.due_ms, 0)
    return state


def _now(ask: Ask, state: tuple[str, int | None, int]) -> Outcome:
    """Return the outcome of a message that is to be delivered now: an overdue one keeps its due time."""
    source, due_ms, _ = state
    return source, ask.stamp_ms if due_ms is None else min(due_ms, ask.stamp_ms), ask.stamp_ms


def _ways(evidence: Evidence, asks: Sequence[Ask]) -> Iterator[list[Ask]]:
    """Return the orders sorted as records.md#ordering says, once for each stamp that they may have."""
    stamps = [sorted(evidence.world.stamps.get(ask.source, {ask.stamp_ms})) for ask in asks]
    for chosen in itertools.product(*stamps):
        known = dict(zip((ask.source for ask in asks), chosen, strict=True))
        yield sorted(asks, key=lambda ask: (known[ask.source], ask.topic, ask.partition, ask.offset))


def _comes_to(bounded: Bounded, left: Outcome, source: str, due_ms: int, copy: Copy | None = None) -> bool:
    """Return whether what orders have left is this message, due no later than its bound."""
    if left is None or left[1] is None or left[0] != source:
        return False
    return due_ms in bounded.dues(source, left[1], copy) or due_ms <= left[2]


def _explains(evidence: Evidence, bounded: Bounded, route: list[Ask], copy: Copy) -> bool:
    """Return whether a copy follows from the commands that had to be known, with some or none of the others."""
    began_s = evidence.began(copy.sent, evidence.world.home(evidence.asks[copy.source]))
    known = [_was_known(evidence, ask, copy, began_s) for ask in route]
    others = [place for place, was in enumerate(known) if not was]
    for count in range(len(others) + 1):
        for chosen in itertools.combinations(others, count):
            some = [ask for place, ask in enumerate(route) if known[place] or place in chosen]
            if _comes_to(bounded, outcome(some), copy.source, copy.due_ms, copy):
                return True
    return False


def _was_known(evidence: Evidence, ask: Ask, copy: Copy, began_s: float) -> bool:
    """Return whether whoever sent a copy had to know an order: it came before that life, or in good time.

    What says that it is older itself may come when all is over.
    """
    if ask.said("delay-asked-at"):
        return False
    return began_s > ask.at_s or evidence.is_known(copy, ask.at_s)


def _missing(evidence: Evidence, id_: str, routes: list[list[Ask]], *, waits: bool) -> Iterator[str]:
    """Check that a message is pending that all commands leave for a far day, unless it was sent before they came."""
    left = {outcome(route) for route in routes}
    if waits or len(left) > 1:
        return
    [last] = left
    if last is None or last[1] is None or last[1] < EPOCH_MS + 3_600_000 or evidence.copies.get(last[0]):
        return
    if evidence.account.ending(last[0]) not in ("dropped", "rejected"):
        yield f"{id_} does not wait as {last}; {_said(evidence, routes[0])}"


def _said(evidence: Evidence, asks: Sequence[Ask]) -> str:
    """Return a description of the commands."""
    said = (
        f"{ask.op} {ask.source} at {ask.at_s:.3f} s, stamp {sorted(evidence.world.stamps.get(ask.source, ()))}, "
        f"due {ask.due_ms}"
        for ask in sorted(asks, key=lambda ask: ask.at_s)
    )
    return "; ".join(said)
