"""Messages of one partition for one destination partition came by (due, arrival), as far as they were known."""

from collections import defaultdict
from collections.abc import Iterator

from tables import keys
from tables.entry import decode
from tests.simulation.evidence import Copy, Evidence
from tests.simulation.loop import EPOCH_MS
from tests.simulation.workload import LARGEST

#: Rows that were there for this time are fired in the order of their due times.
_SEEN_S = 0.02


def out_of_order(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each pair of first copies in the wrong order."""
    rows, applied = _row_keys(evidence), _applied(evidence)
    routes: dict[tuple[int, str, int], list[tuple[Copy, bytes]]] = defaultdict(list)
    for source, copies in evidence.copies.items():
        ask = evidence.asks.get(source)
        if ask is None or ask.over_http or (ask.key is None and ask.said("delay-to-partition") is None):
            continue  # without a key it spreads
        if ask.in_zone and evidence.world.versions.differ:
            continue  # workers with other zone data move it, and move it back
        number = evidence.world.home(ask)
        # Copies that a worker sent before it died may still arrive after all of its successor's.
        rightful = [
            copy for copy in copies if not evidence.succeeded(copy.sent, number, (copy.at_ms - EPOCH_MS) / 1000)
        ]
        if not rightful:
            continue
        first = min(rightful, key=lambda copy: copy.record.offset)
        row = rows.get((source, first.due_ms))
        if row is None:
            yield f"{first} was never in the changelog"
        else:
            routes[number, first.record.topic, first.record.partition].append((first, row))
    for route in routes.values():
        route.sort(key=lambda item: item[0].record.offset)
        for place, (later, row) in enumerate(route):
            known_s = applied.get((row, later.source))
            for copy, other in route[:place]:
                if other > row and known_s is not None and _claimed_s(evidence, copy, other) > known_s + _SEEN_S:
                    yield f"{copy} came before {later}"


def _claimed_s(evidence: Evidence, copy: Copy, row: bytes) -> float:
    """Return when a copy's row was claimed; it may have waited since for its destination to take more."""
    sent_s = _stamped_s(evidence, copy)
    claims = evidence.workers[copy.sent.worker].claimed.get((row, copy.source), [])
    return max((at_s for at_s in claims if at_s <= sent_s + _SEEN_S), default=sent_s)


def chosen_s(evidence: Evidence, copy: Copy) -> float:
    """Return when a copy was chosen to be sent; never, if that is not known.

    A batch that is halved, because a message is too large, gives its records the time of the halving.
    """
    to = copy.record.topic
    halved = any(ask.said("delay-to") == to and len(ask.value or b"") >= LARGEST for ask in evidence.world.asks)
    return -1.0 if halved else _stamped_s(evidence, copy)


def _stamped_s(evidence: Evidence, copy: Copy) -> float:
    """Return when a copy got its timestamp; never, if its worker's clock has jumped, which is none to go by then."""
    if evidence.workers[copy.sent.worker].clock.jumped:
        return -1.0
    return (copy.record.timestamp - copy.sent.shift_ms - EPOCH_MS) / 1000


def _row_keys(evidence: Evidence) -> dict[tuple[str, int], bytes]:
    """Return the row of each message with a due time, from the changelog."""
    found = {}
    for _, record in evidence.read(evidence.world.settings.topics.changelog):
        if record.key is not None and keys.is_row(record.key) and record.value is not None:
            found[decode(record.value).source, keys.due_of(record.key)] = record.key
    return found


def _applied(evidence: Evidence) -> dict[tuple[bytes, str], float]:
    """Return when each row of a source was first in a store."""
    applied: dict[tuple[bytes, str], float] = {}
    for worker in evidence.world.workers:
        for row, at_s in worker.applied.items():
            applied[row] = min(at_s, applied.get(row, at_s))
    return applied
