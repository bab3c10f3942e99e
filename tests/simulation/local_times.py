"""Recurring messages in a zone whose data differs between workers: no local time is lost or doubled.

Occurrences that are three seconds apart by one version of the data are two, three or four apart if the version changes
between them. One second apart, they have the same local time.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.harness.account import ENDINGS
from tests.simulation.arrivals import is_clear
from tests.simulation.evidence import Copy, Evidence
from tests.simulation.workload import Ask
from tests.simulation.zones import STEP_S

_APART_MS = {(STEP_S + by) * 1_000 for by in (-1, 0, 1)}
#: Faults that let a worker begin to fire before it has planned all series, which may take two seconds at most.
_SLOW = {"freeze", "zombie"}


class LocalTimes:
    """Looks at each recurring message in the zone."""

    def __init__(self, evidence: Evidence) -> None:
        """Check `evidence`."""
        self._evidence = evidence

    def faults(self, ask: Ask) -> Iterator[str]:
        """Return a sentence for each fault of a request's occurrences."""
        evidence, copies = self._evidence, self._evidence.copies.get(ask.source, [])
        told: dict[int, set[str]] = defaultdict(set)
        for event in evidence.events:
            if event["source"] == ask.source and event["event"] in ("accepted", *ENDINGS):
                told[event.get("occurrence", 1)].add(event["event"])
        numbers = list(range(1, int(ask.said("delay-count") or "") + 1))
        if sorted(told) != numbers or any(each != {"accepted", "delivered"} for each in told.values()):
            yield f"{ask.source} has the occurrences {dict(told)}, not {numbers}"
        dues = self._dues(ask)
        for number, due_ms in dues.items():
            if all(copy.due_ms != due_ms for copy in copies):
                yield f"occurrence {number} of {ask.source}, due at {due_ms}, has a delivered event, and no delivery"
            if number + 1 in dues and dues[number + 1] - due_ms not in _APART_MS:
                yield f"{ask.source} lost or doubled a local time between {due_ms} and {dues[number + 1]}"
        for copy in copies:
            yield from self._altered(ask, copy)

    def _dues(self, ask: Ask) -> dict[int, int]:
        """Return the due times of the occurrences that were reported as delivered in lives that went on."""
        evidence, number = self._evidence, self._evidence.world.home(ask)
        return {
            event.get("occurrence", 1): event["due"]
            for event, sent in evidence.told
            if event["event"] == "delivered" and event["source"] == ask.source
            if evidence.exact or evidence.broken_off(sent, number) is None
        }

    def _altered(self, ask: Ask, copy: Copy) -> Iterator[str]:
        record, due_ms = copy.record, copy.due_ms
        own = (("delay-id", b"%s@%d" % (ask.name.encode(), due_ms)), ("delay-due", b"%d" % due_ms))
        headers = (("users", b"own"), *own, ("delay-source", ask.source.encode()))
        if (record.key, record.value, record.headers) != (ask.key, ask.value, headers):
            yield f"{copy} is altered: {record}"
        if copy.sent.latest_ms < due_ms:
            yield f"{copy} was early"
        ahead_s = self._evidence.workers[copy.sent.worker].process.zone_s
        if is_clear(self._evidence, _SLOW) and (due_ms + ahead_s * 1_000) % (STEP_S * 1_000):
            yield f"{copy} was planned by other zone data than that of its worker"
