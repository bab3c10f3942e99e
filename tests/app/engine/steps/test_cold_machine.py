"""With a horizon, pending and parked messages together are the pending messages without one."""

import shutil
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.engine.steps.outcomes import Unsent
from app.engine.steps.step import OutgoingRecord, Step
from tables import Changes
from tests.app.workbench import Workbench
from tests.harness.fuzz import share
from tests.punctual.contract.records import FakeRecord
from tests.tables.rows import assert_sound, fast_directory

MINUTE, HOUR = 60_000, 3_600_000
IDS = ["a", "b"]
OPS = ["schedule"] * 6 + ["cancel", "reschedule", "reschedule", "deliver-now"]
#: Delays of messages; the horizon is an hour.
AFTER = [MINUTE, HOUR - 1_000, HOUR, HOUR + 1_000, 5 * HOUR, 5 * HOUR]


@dataclass(frozen=True)
class Version:
    """The message that is parked under an ID, and the record that decided its state last.

    It is due at the time that `set` says, or earlier, if a command delivers it now.
    """

    due: int
    stamp: str
    source: str
    set: int


class Tier:
    """The cold tier, as small as can be."""

    def __init__(self) -> None:
        self.log: list[dict[str, str]] = []

    def append(self, sends: list[OutgoingRecord], topic: str) -> None:
        """Read the records that the worker has written to the topic."""
        for out in sends:
            if out.topic == topic:
                self.log.append({name: (value or b"").decode() for name, value in out.headers})

    def parked(self) -> dict[str, Version]:
        """Return the parked messages: records of a later owner of a partition come after those of an earlier one."""
        found: dict[str, Version] = {}
        for said in sorted(self.log, key=lambda said: int(said["delay-epoch"])):
            id_, op, at = said["delay-id"], said["delay-op"], int(said.get("delay-at", 0))
            stamp, by = said["delay-parked"], said["delay-source"]
            there = found.pop(id_, None)
            if "delay-to" in said:
                found[id_] = Version(at, stamp, by, at)
            elif there is not None and op != "schedule":
                applies = said.get("delay-if-due") in (None, str(there.due))
                if not applies or op != "cancel":
                    moved = replace(there, due=min(at, there.set)) if op == "deliver-now" else Version(at, "", "", at)
                    found[id_] = replace(moved if applies else there, stamp=stamp, source=by)
        return found


class ColdMachine(RuleBasedStateMachine):
    """A worker with a horizon, a cold tier that promotes any message at any time, and a worker without both."""

    @initialize(
        window=st.sampled_from(["PT10M", "PT30M"]), guarantee=st.sampled_from(["at_least_once", "exactly_once"])
    )
    def begin(self, window: str, guarantee: str) -> None:
        self.place = fast_directory()
        same = {"DELAY_PARTITIONS": "1", "DELAY_DEDUPE_WINDOW": window, "DELAY_GUARANTEE": guarantee}
        self.bench = Workbench(self.place / "bench.db", 0, **same, DELAY_HORIZON="PT1H")
        self.plain = Workbench(self.place / "plain.db", 0, **same)
        self.tier = Tier()
        self.sent_back: list[FakeRecord] = []
        self.zombies: list[OutgoingRecord] = []
        self.due = 0

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.bench.close()
            self.plain.close()
            shutil.rmtree(self.place)

    # what people send ------------------------------------------------------------------------------------------------
    @rule(data=st.data(), ops=st.lists(st.sampled_from(OPS), min_size=1, max_size=4), dies=st.booleans())
    def people_send(self, data: st.DataObject, ops: list[str], *, dies: bool) -> None:
        records = [self._record(data, op) for op in ops]
        if dies:
            self._die_with(data, records)
        self._do(records)
        self.plain.read(records)

    def _record(self, data: st.DataObject, op: str) -> FakeRecord:
        self.due += 1  # no due time comes twice: a delivery would be remembered here, and what replaces it there
        at = self.bench.now_ms + data.draw(st.sampled_from(AFTER), label="after") + self.due
        said = {"delay_op": op, "delay_at": str(at), "delay_to": "orders"}
        automatic = [id_ for id_ in self.plain.pending() if id_ not in IDS]
        if op != "schedule":
            said["delay_id"] = data.draw(st.sampled_from([*IDS, *automatic]), label="id")
        elif data.draw(st.booleans(), label="with an id"):
            said["delay_id"] = data.draw(st.sampled_from(IDS), label="id")
        if op != "schedule" and data.draw(st.booleans(), label="expects a due time"):
            dues = sorted({0, *self.plain.pending().values()})
            said["delay_if_due"] = str(data.draw(st.sampled_from(dues), label="expected due time"))
        return self.bench.log.record(self.bench.now_ms, **said)

    # actions of the cold tier ----------------------------------------------------------------------------------------
    @rule(data=st.data())
    def the_tier_sends_back(self, data: st.DataObject) -> None:
        parked = self.tier.parked()
        for id_ in data.draw(st.sets(st.sampled_from(sorted(parked)))) if parked else ():
            self.sent_back.append(self._back(id_, parked[id_]))

    def _back(self, id_: str, version: Version) -> FakeRecord:
        return self.bench.log.record(
            self.bench.now_ms,
            delay_id=id_,
            delay_to="orders",
            delay_at=str(version.due),
            delay_source=version.source,
            delay_parked=f"{version.stamp},{self.bench.now_ms}",
        )

    @rule(data=st.data(), dies=st.booleans())
    def what_it_has_sent_arrives_late_or_again(self, data: st.DataObject, *, dies: bool) -> None:
        if self.sent_back:
            records = data.draw(st.lists(st.sampled_from(self.sent_back), min_size=1, max_size=3))
            again = [self._again(record) for record in records]
            if dies:
                self._die_with(data, again)
            self._do(again)

    @rule(data=st.data())
    def the_worker_dies_before_it_has_told_what_it_took_in(self, data: st.DataObject) -> None:
        """The promoted message is in the changelog: the tier will send it again, and is informed then."""
        if self.sent_back:
            record = data.draw(st.sampled_from(self.sent_back))
            self.bench.pays = False
            self._do([self._again(record)])
            self.bench.pays = True
            self._live_on()
            id_ = (dict(record.headers)["delay-id"] or b"").decode()
            version = self.tier.parked().get(id_)
            if version is not None:
                self._do([self._back(id_, version)])

    def _again(self, record: FakeRecord) -> FakeRecord:
        offset = self.bench.log.offset
        self.bench.log.offset += 1
        return replace(record, offset=offset, timestamp=self.bench.now_ms)

    # actions of the worker -------------------------------------------------------------------------------------------
    @rule(data=st.data())
    def a_send_begins(self, data: st.DataObject) -> None:
        waiting = sorted(set(self.bench.pending()) - {entry.id for entry in self.bench.claims.values()})
        if waiting:
            id_ = data.draw(st.sampled_from(waiting))
            self.bench.claim(id_)
            self.plain.claim(id_)

    @rule(data=st.data(), sent=st.booleans())
    def a_send_ends(self, data: st.DataObject, *, sent: bool) -> None:
        if not self.bench.claims:
            return
        id_ = data.draw(st.sampled_from(sorted(entry.id for entry in self.bench.claims.values())))
        for bench in (self.bench, self.plain):
            row = min(row for row, entry in bench.claims.items() if entry.id == id_)
            if sent:
                bench.run(bench.delivered(row))
            elif bench.claims[row].commands:
                bench.run(Unsent(row))
            else:
                del bench.claims[row]
        self._read_by_tier()

    def _do(self, records: list[FakeRecord]) -> None:
        self.bench.read(records)
        self._read_by_tier()

    def _read_by_tier(self) -> None:
        self.tier.append(self.bench.sends, self.bench.settings.topics.cold)
        self.bench.sends.clear()

    def _die_with(self, data: st.DataObject, records: list[FakeRecord]) -> None:
        """Die when records are on the cold topic, or have yet to come there, and not in the changelog."""
        step = Step(self.bench.now_ms)
        self.bench._take(step, records)
        whole = self.bench.settings.engine.guarantee == "exactly_once"
        how = data.draw(st.sampled_from(["no trace"] if whole else ["sent", "sent in part", "zombie"]), label="dies")
        if how == "zombie":
            self.zombies += step.sends
        elif how != "no trace":
            end = len(step.sends) if how == "sent" else data.draw(st.integers(0, len(step.sends)), label="sent")
            self.tier.append(step.sends[:end], self.bench.settings.topics.cold)
        self.the_tier_sends_back(data)
        self._live_on()
        self.time_goes_by(data.draw(st.sampled_from([0, 10_000, 30 * MINUTE]), label="down for"))

    def _live_on(self) -> None:
        """Come back to life."""
        self.bench.open_again()
        self.plain.open_again()
        store = self.bench.store
        store.apply(Changes(), store.offset, store.writer + 1, self.bench.now_ms)

    @rule(late=st.sampled_from([1, 10_000, MINUTE, 3 * MINUTE, 10 * MINUTE, HOUR]))
    def time_goes_by(self, late: int) -> None:
        for bench in (self.bench, self.plain):
            bench.now_ms += late
            step = Step(bench.now_ms)
            for id_ in bench.store.commands.expired(step.now_ms, 100):
                step.changes.commands[id_] = None
            for id_ in bench.store.delivered.expired(step.now_ms, 100):
                step.changes.delivered[id_] = None
            for id_ in bench.store.cold_marks.expired(step.now_ms, 100):
                step.changes.cold_marks[id_] = None
            bench.apply(step)

    @rule()
    def a_zombie_writes_what_it_had_left(self) -> None:
        self.tier.append(self.zombies, self.bench.settings.topics.cold)
        self.zombies.clear()

    # what holds ------------------------------------------------------------------------------------------------------
    @invariant()
    def every_message_is_in_one_place(self) -> None:
        parked = {id_: version.due for id_, version in self.tier.parked().items()}
        here = self.bench.pending()

        assert not set(parked) & set(here)
        assert self._left(parked | here) == self._left(self.plain.pending())

    def _left(self, pending: dict[str, int]) -> dict[str, int]:
        """Return when messages are due from now on: overdue ones are due at once, since whichever moment.

        A message that came back from the tier no longer has the due time that an earlier `deliver-now` replaced, so a
        second one leaves it as it is; where it never left, the second one counts.
        """
        return {id_: max(due_ms, self.bench.now_ms) for id_, due_ms in pending.items()}

    @invariant()
    def the_account_balances(self) -> None:
        self.bench.assert_balanced()
        assert_sound(self.bench.store)


TestCold = ColdMachine.TestCase
TestCold.settings = settings(max_examples=share(100), stateful_step_count=25, deadline=None)
