"""Bounds of debounces (records.md#debounce), from what events say of lives: an oracle of its own."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

from tests.simulation.evidence import Copy, Evidence
from tests.simulation.loop import EPOCH_MS
from tests.simulation.workload import Ask

#: Limit of ways to choose stamps, and requests that may have been known.
_WAYS = 256
#: Maximum difference of workers' clocks.
_CLOCKS_S = 1.0


def bounds_of(evidence: Evidence, asks: Sequence[Ask]) -> set[int]:
    """Return all bounds that requests for an id may have had."""
    spans = {int(span) for ask in asks if (span := ask.said("delay-no-later")) is not None}
    return {stamp + span for ask in asks if ask.op == "schedule" for stamp in _stamps(evidence, ask) for span in spans}


class Bounded:
    """Decides which requests were of one life, by the events that report replacements."""

    def __init__(self, evidence: Evidence) -> None:
        """Check `evidence`."""
        self._evidence = evidence
        self._replaced: dict[str, set[str]] = defaultdict(set)
        self._told_s: dict[str, float] = {}
        self._accepted_s: dict[str, float] = {}
        for event, sent in evidence.told:
            source, by = event["source"], event.get("by")
            if event["event"] == "accepted":
                self._accepted_s[source] = min(sent.at_s, self._accepted_s.get(source, sent.at_s))
            if event["event"] == "replaced" and by:
                self._replaced[by].add(source)
                # Told again, it was not known before: the step that had told it first was not kept.
                self._told_s[source] = max(sent.at_s, self._told_s.get(source, sent.at_s))

    def dues(self, source: str, asked_ms: int, copy: Copy | None = None) -> set[int]:
        """Return the possible due times of a message requested for `asked_ms`: of its copy, or of its pending row."""
        evidence, ask = self._evidence, self._evidence.asks[source]
        if all(one.said("delay-no-later") is None for one in evidence.by_id[ask.name]):
            return {asked_ms}
        others = self._life(source, lambda _: True)
        known = self._life(source, lambda other: self._was_known(other, ask, copy))
        doubtful = [other for other in others if other not in known]
        found = set()
        for count in range(len(doubtful) + 1):
            for some in itertools.combinations(doubtful, count):
                found |= self._within([ask, *known, *some], asked_ms)
        return found

    def _life(self, source: str, counts: Callable[[Ask], bool]) -> list[Ask]:
        """Return the other requests that count of a life that ends, or waits, as `source`."""
        life, new = [source], [source]
        while new:
            replaced = [one for one in sorted(self._replaced[new.pop()]) if one not in life]
            found = [one for one in replaced if counts(self._evidence.asks[one])]
            life, new = life + found, new + found
        return [self._evidence.asks[one] for one in life[1:]]

    def _within(self, life: Sequence[Ask], asked_ms: int) -> set[int]:
        stamps = [_stamps(self._evidence, ask) for ask in life]
        found = set()
        for chosen in itertools.islice(itertools.product(*stamps), _WAYS):
            places = ((ask.topic, ask.partition, ask.offset) for ask in life)
            way = sorted(zip(chosen, places, life, strict=True), key=lambda one: one[:2])
            spans = [int(span) for *_, ask in way if (span := ask.said("delay-no-later")) is not None]
            found.add(min(asked_ms, way[0][0] + spans[-1]) if spans else asked_ms)
        return found

    def _was_known(self, other: Ask, ask: Ask, copy: Copy | None) -> bool:
        """Return whether whoever sent a copy had to know that the life of its request had another one before."""
        evidence, told_s = self._evidence, self._told_s[other.source]
        if evidence.account.ending(other.source) != "replaced":  # before a crash, or after one, it had another end
            return False
        if copy is None:
            return not self._of_another_life(other, ask)
        # A replacement that becomes known while a message is being sent does not move it.
        if told_s > max(self._accepted_s[copy.source], (copy.due_ms - EPOCH_MS) / 1000 - _CLOCKS_S):
            return False
        began_s = evidence.began(copy.sent, evidence.world.home(evidence.asks[copy.source]))
        known = began_s > told_s or (evidence.calm and copy.sent.at_s > told_s + evidence.prompt_s)
        return known and not self._of_another_life(other, ask)

    def _of_another_life(self, other: Ask, ask: Ask) -> bool:
        """Return whether something between two requests may have been an end."""
        between = [one for one in self._evidence.by_id[ask.name] if one not in (other, ask)]
        return any(
            one.op == "cancel" or self._evidence.account.ending(one.source) in ("delivered", "dropped", "rejected")
            for one in between
        )


def _stamps(evidence: Evidence, ask: Ask) -> Collection[int]:
    return sorted(evidence.world.stamps.get(ask.source, {ask.stamp_ms}))


def unbounded(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each delivery that was due beyond the bound of its life."""
    if evidence.world.settings.engine.row_version in (1, 2):
        return  # such rows have no bounds
    bounded = Bounded(evidence)
    for source, copies in evidence.copies.items():
        for copy in copies:
            if source in evidence.asks and copy.due_ms > max(bounded.dues(source, copy.due_ms, copy)):
                yield f"{copy}: it was due later than {max(bounded.dues(source, copy.due_ms, copy))}"
