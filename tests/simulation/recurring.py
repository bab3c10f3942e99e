"""Recurring messages: each occurrence at a time that was planned, none missing or doubled, whatever happened."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from app.base.clock import FAST_MS, JUMP_MS
from punctual.contract.jitter import spread
from tests.harness.account import ENDINGS
from tests.simulation.evidence import Copy, Evidence
from tests.simulation.workload import LARGEST, Ask


class Recurring:
    """Checks each series by its request alone, whatever is in the table."""

    def __init__(self, evidence: Evidence) -> None:
        """Check `evidence`."""
        self._evidence = evidence

    def faults(self, ask: Ask) -> Iterator[str]:
        """Return a sentence for each fault of a request's series."""
        evidence = self._evidence
        copies = evidence.copies.get(ask.source, [])
        if evidence.world.settings.engine.row_version in (1, 2):
            if copies or not evidence.letters[ask.source]:
                yield f"{ask.source} recurs, which rows of an older version cannot, and was not refused"
            return
        lives = self._lives(ask)
        if not lives:
            yield f"{ask.source} ({ask.name}) was lost"
        if sorted(lives) != list(range(1, len(lives) + 1)):
            yield f"{ask.source} has the occurrences {sorted(lives)}"
        for number, told in lives.items():
            if "accepted" not in told:
                yield f"occurrence {number} of {ask.source} was never accepted, yet {told}"
        for copy in copies:
            yield from self._altered(ask, copy)
        yield from self._doubled(ask, copies)
        if len(self._evidence.by_id[ask.name]) == 1:
            yield from self._missing(ask, lives, copies)
        else:
            yield from self._obeyed(ask, copies)
            yield from self._accounted(ask, lives)
            yield from self._held(ask, copies)
            yield from self._early(ask, copies)
            yield from self._one_more(ask, copies)
        yield from self._lost(ask, copies)
        yield from self._beyond(ask, copies)
        yield from self._forgotten(ask)

    def _lives(self, ask: Ask) -> dict[int, set[str]]:
        """Return the kinds of events of each occurrence."""
        found: dict[int, set[str]] = defaultdict(set)
        for event in self._evidence.events:
            if event["source"] == ask.source and event["event"] in ("accepted", *ENDINGS):
                found[event.get("occurrence", 1)].add(event["event"])
        return found

    def _plan(self, ask: Ask) -> list[int]:
        """Return the first times that the rule plans, more than can be over."""
        every, first = int(ask.said("delay-every") or ""), ask.said("delay-at")
        begin = ask.stamp_ms + every if first is None else int(first)
        return [begin + number * every for number in range(200)]

    def _planned(self, ask: Ask) -> list[int]:
        """Return the times that the rule plans, up to its count and its end."""
        until_ms = int(ask.said("delay-until") or 1 << 60)
        return [planned for planned in self._plan(ask)[: int(ask.said("delay-count") or "")] if planned <= until_ms]

    def _altered(self, ask: Ask, copy: Copy) -> Iterator[str]:
        record, due_ms = copy.record, copy.due_ms
        jitter_ms = int(ask.said("delay-jitter") or 0)
        planned = any(0 <= due_ms - planned <= jitter_ms for planned in self._plan(ask))
        if not planned and due_ms not in self._moved(ask):
            yield f"{copy}: neither the rule nor a command has asked for that due time"
        own = (("delay-id", b"%s@%d" % (ask.name.encode(), due_ms)), ("delay-due", b"%d" % due_ms))
        headers = (("users", b"own"), *own, ("delay-source", ask.source.encode()))
        if (record.key, record.value, record.headers) != (ask.key, ask.value, headers):
            yield f"{copy} is altered: {record}"
        if record.topic != ask.said("delay-to"):
            yield f"{copy} is in the wrong place"
        if copy.sent.latest_ms < due_ms or copy.at_ms < due_ms - FAST_MS - JUMP_MS:
            yield f"{copy} was early"

    def _moved(self, ask: Ask) -> set[int]:
        others = self._evidence.by_id[ask.name]
        asked = {int(at) for other in others if other.op == "reschedule" and (at := other.said("delay-at"))}
        return asked | {other.stamp_ms for other in others if other.op == "deliver-now"}

    def _doubled(self, ask: Ask, copies: list[Copy]) -> Iterator[str]:
        """Check that only occurrences in flight at a worker's end are delivered twice."""
        number = self._evidence.world.home(ask)
        moved = self._moved(ask)
        for due_ms, count in Counter(copy.due_ms for copy in copies).items():
            of = [copy for copy in copies if copy.due_ms == due_ms]
            left = sum(self._evidence.broken_off(copy.sent, number) is not None for copy in of)
            if count > 1 and due_ms not in moved and (self._evidence.exact or count - left > 1):
                yield f"{ask.source} ({ask.name}) is there too often: {', '.join(map(str, of))}"

    def _missing(self, ask: Ask, lives: dict[int, set[str]], copies: list[Copy]) -> Iterator[str]:
        """Check that a series without commands came to its end, with all of its occurrences."""
        count = len(self._planned(ask))
        least, most = (len(lives) + sum(of(told) for told in self._skipped(ask).values()) for of in (min, max))
        if not least <= count <= most or (self._evidence.exact and least != most):
            yield f"{ask.source} has come to {len(lives)} occurrences and {self._skipped(ask)} skipped, not {count}"
        delivered = sum("delivered" in told for told in lives.values())
        if len({copy.due_ms for copy in copies}) < delivered:
            yield f"{ask.source}: {delivered} occurrences have a delivered event, and fewer were delivered"

    # changes by commands ---------------------------------------------------------------------------------------------
    def _commands(self, ask: Ask, known: set[str]) -> dict[str, Ask] | None:
        """Return the commands for a series by kind, if there is one of each at most, and no worker came too late.

        None if there are others, or if their order is not plain.
        """
        others = [one for one in self._evidence.by_id[ask.name] if one is not ask]
        found = {one.op: one for one in others}
        if not others or len(found) < len(others) or not known.issuperset(found) or len(ask.value or b"") >= LARGEST:
            return None
        stamps = [self._stamps(one) for one in (ask, *sorted(others, key=lambda one: one.at_s))]
        in_order = all(max(before) < min(after) for before, after in itertools.pairwise(stamps))
        late = any(
            event.get("by") in {one.source for one in others} for event in self._told("stale", "conflict", "unknown")
        )
        return found if in_order and not late and ("pause" not in found or "resume" in found) else None

    def _told(self, *kinds: str) -> Iterator[dict[str, Any]]:
        return (event for event in self._evidence.events if event["event"] in kinds)

    def _had_to_know(self, copy: Copy, ask: Ask, command: Ask) -> bool:
        """Return whether whoever sent a copy had to know a command."""
        began = self._evidence.began(copy.sent, self._evidence.world.home(ask)) > command.at_s
        return began or (self._evidence.calm and copy.sent.at_s > command.at_s + self._evidence.prompt_s)

    def _accounted(self, ask: Ask, lives: dict[int, set[str]]) -> Iterator[str]:
        """Check that each planned time of a series that was moved or held has an occurrence, or an event."""
        if self._commands(ask, {"reschedule", "pause", "resume"}) is None:
            return
        skipped: dict[tuple[Any, ...], set[int]] = defaultdict(set)
        for event in self._told("skipped"):
            if event["source"] == ask.source:
                skipped[event.get("occurrence", 1), event["reason"], event["due"]].add(event["count"])
        least, most = (len(lives) + sum(map(of, skipped.values())) for of in (min, max))
        count = len(self._planned(ask))
        if not least <= count <= most:
            yield f"{ask.source} has come to {len(lives)} occurrences and {dict(skipped)} skipped, not {count}"

    def _held(self, ask: Ask, copies: list[Copy]) -> Iterator[str]:
        """Check that no occurrence is delivered that was due while its series was paused."""
        commands = self._commands(ask, {"pause", "resume"})
        if commands is None or "pause" not in commands:
            return
        since_ms, until_ms = max(self._stamps(commands["pause"])), min(self._stamps(commands["resume"]))
        for copy in copies:
            if since_ms < copy.due_ms <= until_ms and self._had_to_know(copy, ask, commands["pause"]):
                yield f"{copy} was due while it was paused"

    def _early(self, ask: Ask, copies: list[Copy]) -> Iterator[str]:
        """Check that no occurrence is delivered before the due time that it was moved to."""
        commands = self._commands(ask, {"reschedule", "pause", "resume"})
        if commands is None or "reschedule" not in commands:
            return
        move = commands["reschedule"]
        for copy in copies:
            if copy.due_ms < int(move.said("delay-at") or "") and self._had_to_know(copy, ask, move):
                yield f"{copy} is due before {move.said('delay-at')}, which it had been moved to"

    def _one_more(self, ask: Ask, copies: list[Copy]) -> Iterator[str]:
        """Check that a series has its occurrence of a deliver-now command."""
        commands = self._commands(ask, {"deliver-now", "pause", "resume"})
        if commands is None or "deliver-now" not in commands or ask.said("delay-misfire") != "catch-up":
            return
        now = commands["deliver-now"]
        dues = {event["due"] for event in self._told("rescheduled") if event.get("by") == now.source}
        if dues and dues <= self._stamps(now) and not dues & {copy.due_ms for copy in copies}:
            yield f"{ask.source}: the occurrence that {now.source} has added is missing"

    def _skipped(self, ask: Ask) -> dict[int, set[int]]:
        """Return the counts of skipped occurrences that were reported after each; a crash can lead to more than one."""
        found: dict[int, set[int]] = defaultdict(set)
        for event in self._evidence.events:
            if event["source"] == ask.source and event["event"] == "skipped":
                found[event.get("occurrence", 1)].add(event["count"])
        return found

    def _lost(self, ask: Ask, copies: list[Copy]) -> Iterator[str]:
        """Check that all occurrences are delivered that were due before the pause, or after the resume, of a series."""
        others = [one for one in self._evidence.by_id[ask.name] if one is not ask]
        known = {"deliver-now", "pause", "resume"}
        if ask.said("delay-misfire") != "catch-up" or not known.issuperset(one.op for one in others):
            return
        if len(ask.value or b"") >= LARGEST:
            return
        stamps = {
            op: [stamp for one in others if one.op == op for stamp in self._stamps(one)] for op in ("pause", "resume")
        }
        if stamps["pause"] and max(stamps["pause"]) >= min(stamps["resume"], default=0):
            return  # it stays paused, or was so more than once
        since_ms, until_ms = min(stamps["pause"], default=1 << 60), max(stamps["resume"], default=0)
        jitter_ms, passed = int(ask.said("delay-jitter") or 0), self._passed_before_late_resume(ask, others)
        for planned_ms in self._planned(ask):
            if planned_ms in passed:
                continue
            due_ms = spread(ask.name, planned_ms, jitter_ms)
            there = any(0 <= copy.due_ms - due_ms <= 1 for copy in copies)  # the place of one more may be taken
            if not there and (due_ms <= since_ms or due_ms > until_ms):
                yield f"{ask.source}: the occurrence that was planned for {planned_ms} is missing"

    def _passed_before_late_resume(self, ask: Ask, others: list[Ask]) -> set[int]:
        """Return the planned times that a `deliver-now` skipped with an event because an earlier resume was late."""
        sources = {one.source for one in others if one.op == "resume"}
        stale = {event["by"] for event in self._told("stale") if event["by"] in sources}
        ends = [stamp for one in others if one.op == "deliver-now" for stamp in self._stamps(one)]
        if not (stale and ends):
            return set()
        plan, found = self._plan(ask), set[int]()
        for event in self._told("skipped"):
            if event["source"] == ask.source and event["reason"] == "paused" and event["due"] in plan:
                first = plan.index(event["due"])
                found.update(plan[first : first + event["count"]])
        return {planned_ms for planned_ms in found if planned_ms <= max(ends)}

    def _forgotten(self, ask: Ask) -> Iterator[str]:
        """Check that a series that is scheduled again has all occurrences that were due, from one request or the
        other."""
        asks = sorted(self._evidence.by_id[ask.name], key=lambda one: max(self._stamps(one)))
        catches_up = ask.said("delay-misfire") == "catch-up" and len(ask.value or b"") < LARGEST
        alike = all((one.headers, one.value) == (ask.headers, ask.value) for one in asks)
        if not (catches_up and alike and len(asks) > 1 and ask is asks[0]):
            return
        copies = [copy for one in asks for copy in self._evidence.copies.get(one.source, [])]
        jitter_ms = int(ask.said("delay-jitter") or 0)
        replaced = any(told["event"] == "replaced" and told["source"] == ask.source for told in self._evidence.events)
        went_on = replaced and self._evidence.exact  # a finished series begins again
        for planned_ms in self._planned(ask):
            sources = {copy.source for copy in copies if 0 <= copy.due_ms - planned_ms <= jitter_ms}
            if went_on and len(sources) > 1:
                yield f"{ask.name} was requested again, and the occurrence that was planned for {planned_ms} came twice"
            if not sources:
                yield f"{ask.name} was requested again, and the occurrence that was planned for {planned_ms} is missing"

    def _beyond(self, ask: Ask, copies: list[Copy]) -> Iterator[str]:
        """Check that no copy comes after the last planned occurrence."""
        last_ms = self._planned(ask)[-1] + int(ask.said("delay-jitter") or 0)
        moved = self._moved(ask)
        if any(one.recurs and one is not ask for one in self._evidence.by_id[ask.name]):
            return  # it counts from where the other one was
        for copy in copies:
            if copy.due_ms > last_ms and copy.due_ms not in moved:
                yield f"{copy} is one more than {len(self._planned(ask))}"

    def _stamps(self, ask: Ask) -> set[int]:
        return self._evidence.world.stamps.get(ask.source) or {ask.stamp_ms}

    def _obeyed(self, ask: Ask, copies: list[Copy]) -> Iterator[str]:
        """Check that no worker delivers from a series once it had to know its cancel, the last command."""
        asks = sorted(self._evidence.by_id[ask.name], key=lambda one: (one.stamp_ms, one.partition, one.offset))
        stamps_differ = any(self._evidence.world.plan.brokers_ms)
        if [one.op for one in asks] != ["schedule", "cancel"] or stamps_differ or asks[0].stamp_ms == asks[1].stamp_ms:
            return
        for copy in copies:
            if self._evidence.began(copy.sent, self._evidence.world.home(ask)) > asks[1].at_s:
                yield f"{copy} was sent in a life that began after its cancel at {asks[1].at_s:.3f} s"
