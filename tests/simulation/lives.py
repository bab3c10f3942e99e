"""Each request has exactly one ending, and each delivery is as requested, and not early."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from app.base.clock import FAST_MS, JUMP_MS
from app.engine.steps.occurrences import number_of
from tests.harness.account import ENDINGS, life_of
from tests.simulation.bounds import bounds_of
from tests.simulation.evidence import Copy, Evidence, Life, Told
from tests.simulation.local_times import LocalTimes
from tests.simulation.loop import EPOCH_MS
from tests.simulation.recurring import Recurring
from tests.simulation.workload import LARGEST, Ask

_GONE = 410
_OWN = ("delay-id", "delay-due", "delay-source")


class Lives:
    """Looks at each request and command, and at the account."""

    def __init__(self, evidence: Evidence) -> None:
        """Check `evidence`."""
        self._evidence, self._exact = evidence, evidence.exact
        self._recurring, self._local_times = Recurring(evidence), LocalTimes(evidence)
        self._left: Counter[Life] = Counter()
        #: How many lives were first reported with another ending.
        self.retold = 0

    def faults(self) -> Iterator[str]:
        """Return a sentence for everything that is wrong."""
        evidence = self._evidence
        for ask in evidence.world.asks:
            yield from self._fate(ask)
        for source in evidence.copies:
            if source not in evidence.asks or evidence.asks[source].op != "schedule":
                yield f"{source} was delivered, and never asked for"
        yield from self._account()
        # Deliveries in flight to a failing destination take no room from the others: a batch each.
        world, routes = evidence.world, sum(evidence.world.destinations.values())
        bound = world.settings.engine.max_in_flight + world.plan.batch * routes
        for life, count in self._left.items():
            if count > bound:
                yield f"{life} has left {count} duplicates, {bound} may be in flight"

    def _fate(self, ask: Ask) -> Iterator[str]:
        """Check the fate of a record."""
        events = self._evidence.events
        if ask.poison is not None:
            yield from self._refused(ask)
        elif ask.source in self._evidence.unadmitted:
            yield from self._unadmitted(ask)
        elif ask.in_zone:
            yield from self._local_times.faults(ask)
        elif ask.recurs:
            yield from self._recurring.faults(ask)
        elif ask.op == "schedule":
            yield from self._lived(ask)
        elif not any(event.get("by", event["source"]) == ask.source for event in events):
            yield f"there is no event about the outcome of {ask.source}, {ask.op} of {ask.name}"

    # the account -----------------------------------------------------------------------------------------------------
    def _account(self) -> Iterator[str]:
        """Check that each life has one ending or is pending; exactly once, also check the contract's sum.

        At least once, events are written before the changelog: a step that was not kept may be done again in another
        order, by the same partition's next life, and end a message otherwise.
        """
        account = self._evidence.account
        sums = account.sums
        if self._exact and 2 * sums["accepted"] != sum(sums.values()):
            yield f"the account does not balance: {sums}"
        rows = self._evidence.waiting()
        waiting = Counter(life_of({"source": entry.source, "occurrence": number_of(entry)}) for _, entry in rows)
        kept = self._kept()
        for source, told in account.lives.items():
            if source in self._evidence.unadmitted:
                continue  # a step that was not kept had accepted it: `_unadmitted` checks it as a dead letter
            endings = told & set(ENDINGS)
            if "accepted" not in told:
                yield f"{source} was never accepted, yet {told}"
            certain = endings if self._exact else kept[source]
            ended = endings or waiting[source] or (not self._exact and self._said("duplicate", source))
            ended = ended or (not self._exact and (self._was_skipped(source) or self._is_of_zombies(source)))
            if len(certain) + waiting[source] > 1 or not ended:
                yield f"{source} has the endings {sorted(endings)}, and waits {waiting[source]} times"
            self.retold += len(endings) + waiting[source] > 1

    def _is_of_zombies(self, life: str) -> bool:
        """Return whether only workers that had lost the partition have accepted an occurrence of a series."""
        source, of_series, _ = life.partition("@")
        number = self._evidence.world.home(self._evidence.asks[source])
        begins = [
            one.sent for one in self._evidence.told if one.event["event"] == "accepted" and life_of(one.event) == life
        ]
        return bool(of_series) and all(self._evidence.succeeded(sent, number, sent.at_s) for sent in begins)

    def _was_skipped(self, life: str) -> bool:
        """Return whether an occurrence that only steps which were not kept had accepted was skipped in a kept one."""
        evidence, accepted, skipped = self._evidence, list[int](), list[int]()
        for event, sent in evidence.told:
            if event["source"] not in evidence.asks:
                continue
            is_kept = evidence.broken_off(sent, evidence.world.home(evidence.asks[event["source"]])) is None
            if event["event"] == "accepted" and life_of(event) == life:
                if is_kept:
                    return False
                accepted.append(event["due"])
            elif event["event"] == "skipped" and is_kept and event["source"] == life.partition("@")[0]:
                skipped.append(event["due"])
        return any(due_ms >= min(accepted) for due_ms in skipped)

    def _kept(self) -> dict[str, set[str]]:
        """Return the endings of each source that were reported in lives that went on."""
        kept: dict[str, set[str]] = defaultdict(set)
        for event, sent in self._evidence.told:
            if event["event"] in ENDINGS and event["source"] in self._evidence.asks:
                number = self._evidence.world.home(self._evidence.asks[event["source"]])
                if self._evidence.broken_off(sent, number) is None:
                    kept[life_of(event)].add(event["event"])
        return kept

    # requests --------------------------------------------------------------------------------------------------------
    def _refused(self, ask: Ask) -> Iterator[str]:
        found = self._evidence.letters[ask.source]
        if not found or (self._exact and len(found) > 1):
            yield f"{ask.source}, {ask.poison}, has {len(found)} dead letters"
        for dead_letter in found:
            reason = dict(dead_letter.headers)["delay-reason"]
            if (reason, dead_letter.key, dead_letter.value) != ((ask.poison or "").encode(), ask.key, ask.value):
                yield f"the dead letter of {ask.source}, {ask.poison}, is {dead_letter}"
        if not self._said("refused", ask.source):
            yield f"nothing says that {ask.source} was refused"

    def _unadmitted(self, ask: Ask) -> Iterator[str]:
        """Check that a request refused for a quota is only a dead letter that can be sent again."""
        if not ask.input or not self._evidence.world.settings.topics.quotas:
            yield f"{ask.source} was refused for a quota that it has not"
        found = [
            letter for letter in self._evidence.letters[ask.source] if dict(letter.headers)["delay-reason"] == b"quota"
        ]
        if not found or (self._exact and len(found) > 1):
            yield f"{ask.source}, for which there was no room, has {len(found)} dead letters"
        for letter in found:
            if (dict(letter.headers)["delay-id"], letter.value) != (ask.name.encode(), ask.value):
                yield f"the dead letter of {ask.source} is {letter}"
        copies = self._evidence.copies.get(ask.source, [])
        if copies:
            yield from self._too_many(ask, copies, 0, "refused")

    def _told(self, what: str, source: str) -> Iterator[Told]:
        return (one for one in self._evidence.told if one.event["event"] == what and one.event["source"] == source)

    def _said(self, what: str, source: str) -> dict[str, Any] | None:
        return next((told.event for told in self._told(what, source)), None)

    def _lived(self, ask: Ask) -> Iterator[str]:
        """Check the fate of a request."""
        evidence = self._evidence
        told, duplicate = evidence.account.lives.get(ask.source, set()), self._said("duplicate", ask.source) is not None
        if not told and not duplicate:
            yield f"{ask.source} ({ask.name}) was lost"
        if told and duplicate and self._exact:
            yield f"{ask.source} ({ask.name}) was a duplicate, and {told}"
        ending, copies = evidence.account.ending(ask.source), evidence.copies.get(ask.source, [])
        needed = int(ending == "delivered")
        if len(copies) < needed:
            yield f"{ask.source} ({ask.name}) has a delivered event, and no delivery"
        for copy in copies:
            yield from self._altered(ask, copy)
            yield from self._early(ask, copy)
        if len(copies) > needed:
            yield from self._too_many(ask, copies, needed, ending)
        if ending in ("dropped", "rejected"):
            yield from self._given_up(ask, ending)
        if ending == "delivered" and len(ask.value or b"") >= LARGEST and not ask.over_http:
            yield f"{ask.source} was delivered, too large as it is"

    def _altered(self, ask: Ask, copy: Copy) -> Iterator[str]:
        record = copy.record
        if copy.due_ms not in self._dues(ask):
            yield f"{copy}: no request had that due time"
        if ask.over_http:
            return  # looked at for each try (posts.py)
        users = tuple((name, value) for name, value in ask.headers if not name.startswith("delay-"))
        if ask.said("delay-retry") is not None:
            users = (*users, ("delay-attempt", b"2"))
        own = zip(_OWN, (ask.name.encode(), b"%d" % copy.due_ms, ask.source.encode()), strict=True)
        if (record.key, record.value, record.headers) != (ask.key, ask.value, (*users, *own)):
            yield f"{copy} is altered: {record}"
        to = ask.said("delay-to-partition")
        if ask.said("delay-to") != record.topic or to not in (None, str(record.partition)):
            yield f"{copy} is in the wrong place"

    def _dues(self, ask: Ask) -> set[int | None]:
        """Return the due times that a request may have had."""
        found = {ask.due_ms}
        for other in self._evidence.by_id[ask.name]:
            if other.op == "reschedule":
                found.add(other.due_ms)
            elif other.op == "deliver-now":  # a request that comes late is as overdue as the message that it finds
                found |= {other.stamp_ms, *(one.due_ms for one in self._evidence.by_id[ask.name])}
        return found | bounds_of(self._evidence, self._evidence.by_id[ask.name])

    def _early(self, ask: Ask, copy: Copy) -> Iterator[str]:
        if copy.sent.latest_ms < copy.due_ms:
            yield f"{copy} was early by its worker's clock"
        if copy.at_ms < copy.due_ms - FAST_MS - JUMP_MS:
            yield f"{copy} was early by the brokers' clock"
        limit = ask.said("delay-max-late")  # checked once: a delivery that is retried may come later
        if self._evidence.calm and limit is not None and ask.said("delay-if-late") in ("drop", "dead-letter"):
            late = copy.record.timestamp - copy.due_ms
            if late > int(limit) + self._evidence.prompt_s * 1000:
                yield f"{copy} was sent {late} ms late, {limit} were allowed"

    def _given_up(self, ask: Ask, ending: str) -> Iterator[str]:
        """Check that a message that was given up had a reason for it, and has a dead letter."""
        event = self._said(ending, ask.source) or {}
        limit, policy = ask.said("delay-max-late"), ask.said("delay-if-late")
        if event["reason"] == "too-late":
            if limit is None or policy != ("drop" if ending == "dropped" else "dead-letter"):
                yield f"{ask.source} was {ending} for being late, which was not requested"
            elif ending == "dropped" and event["late"] <= int(limit):
                yield f"{ask.source} was dropped {event['late']} ms late, {limit} were allowed"
        elif ask.over_http and event["reason"] == "undeliverable":
            yield from self._untaken(ask)
        elif event["reason"] != "too-large" or len(ask.value or b"") < LARGEST:
            yield f"{ask.source} was {ending}: {event}"
        letters = self._evidence.letters[ask.source] if ending == "rejected" else []
        if ending == "rejected" and (not letters or (self._exact and len(letters) > 1)):
            yield f"{ask.source} was rejected, and has {len(letters)} dead letters"
        if any((dead_letter.key, dead_letter.value) != (ask.key, ask.value) for dead_letter in letters):
            yield f"the dead letter of {ask.source} is altered"

    def _untaken(self, ask: Ask) -> Iterator[str]:
        """Check that a message was given up because its host never takes it, or has not for too long."""
        world = self._evidence.world
        gone = any(post.status == _GONE and post.source == ask.source for post in world.web.posts)
        due_ms = min(due for due in self._dues(ask) if due is not None)
        told = list(self._told("rejected", ask.source))
        # The brokers' time decides, as far as the worker knows it; one broker's clock may be ahead of the others'.
        by_brokers = [EPOCH_MS + one.sent.at_s * 1000 + max(world.plan.brokers_ms) for one in told]
        # Its worker's clock may have been set back between the decision and the event.
        by_worker = [one.event["at"] for one in told]
        letters = [letter.timestamp for letter in self._evidence.letters[ask.source]]
        if not gone and max([*by_brokers, *by_worker, *letters]) < due_ms + world.web.give_up_ms:
            yield f"{ask.source} was given up too soon: {told[0].event}"

    def _too_many(self, ask: Ask, copies: list[Copy], needed: int, ending: str | None) -> Iterator[str]:
        """Check that copies beyond those needed were in flight when their worker died, or lost its partition."""
        number = self._evidence.world.home(ask)
        lives = [life for copy in copies if (life := self._evidence.broken_off(copy.sent, number)) is not None]
        if (self._exact and not ask.over_http) or len(copies) - len(lives) > needed:
            yield f"{ask.source} ({ask.name}), {ending}, is there too often: {', '.join(map(str, copies))}"
        if not ask.over_http:  # hosts have room of their own
            self._left.update(lives[: len(copies) - needed])

    @property
    def duplicates(self) -> int:
        """The number of excess copies."""
        return sum(self._left.values())
