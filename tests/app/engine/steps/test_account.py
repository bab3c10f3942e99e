"""The account balances: whatever comes in whatever order, accepted = endings + pending, from the events alone."""

import shutil
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.engine.steps.outcomes import Dropped, Outcome, Rejected, Unsent
from app.engine.steps.step import Step
from punctual.contract.request import Reason
from tables import PartitionStore
from tests.app.workbench import Workbench, source
from tests.harness.fuzz import share
from tests.punctual.contract.records import NOW, FakeRecord
from tests.tables.rows import assert_sound, fast_directory, image

SCHEDULES = ["schedule"] * 6
COMMANDS = ["cancel", "cancel", "reschedule", "deliver-now"]
FIRST = ["accepted", "refused", "duplicate"]
ANSWERS = ["cancelled", "rescheduled", "conflict", "unknown", "stale"]
dues = st.integers(NOW - 2, NOW + 2)


class AccountMachine(RuleBasedStateMachine):
    """A partition's life: requests from near and far, sends and their outcomes, and crashes at their worst."""

    @initialize(dedupe=st.sampled_from(["0", "PT1H"]))
    def begin(self, dedupe: str) -> None:
        self.place = fast_directory()
        self.bench = Workbench(self.place / "live.db", DELAY_PARTITIONS="1", DELAY_DEDUPE_WINDOW=dedupe)
        self.requests: list[FakeRecord] = []
        self.forwards: list[FakeRecord] = []
        self.elsewhere = 0

    def teardown(self) -> None:
        if not hasattr(self, "place"):
            return
        restored = PartitionStore(self.place / "restored.db")
        restored.replay(self.bench.changelog, len(self.bench.changelog), NOW)
        same = image(restored) == image(self.bench.store)
        restored.close()
        self.bench.close()
        shutil.rmtree(self.place)
        assert same

    # what people send ------------------------------------------------------------------------------------------------
    @rule(data=st.data(), ops=st.lists(st.sampled_from([*SCHEDULES, *COMMANDS, "nonsense"]), min_size=1, max_size=6))
    def people_send(self, data: st.DataObject, ops: list[str]) -> None:
        for op in ops:
            said = self._said(data, op)
            if data.draw(st.booleans(), label="from elsewhere") and op != "nonsense":
                self.elsewhere += 1
                stamp = NOW + data.draw(st.integers(-1, 1), label="stamp")
                self.forwards.append(self.bench.from_elsewhere(self.elsewhere, stamp, **said))
            else:
                self.requests.append(self.bench.log.record(**said))

    def _said(self, data: st.DataObject, op: str) -> dict[str, str]:
        said = {"delay_op": op, "delay_at": str(data.draw(dues, label="due")), "delay_to": "orders"}
        if op != "schedule" or data.draw(st.booleans(), label="with an id"):
            said["delay_id"] = data.draw(st.sampled_from(["a", "b"]), label="id")
        if op != "schedule" and data.draw(st.booleans(), label="expects a due time"):
            said["delay_if_due"] = str(data.draw(dues, label="expected due time"))
        return said

    @rule(data=st.data())
    def a_forward_repeats(self, data: st.DataObject) -> None:
        if self.forwards:
            first = data.draw(st.sampled_from(self.forwards))
            again = self.bench.forwards.record()
            again.headers, again.key, again.value = [], first.key, first.value
            self.forwards.append(again)

    # actions of the worker -------------------------------------------------------------------------------------------
    @rule(data=st.data())
    def sends_begin(self, data: st.DataObject) -> None:
        rows = [row for row, _ in self.bench.store.rows() if row not in self.bench.claims]
        for row in data.draw(st.sets(st.sampled_from(rows))) if rows else ():
            self.bench.claim_row(row)

    @rule(data=st.data(), records=st.integers(0, 5))
    def a_step_is_made(self, data: st.DataObject, records: int) -> None:
        step = Step(self.bench.now_ms)
        rows = sorted(self.bench.claims)
        for row in sorted(data.draw(st.sets(st.sampled_from(rows)))) if rows else ():
            self.bench.outcomes.apply(step, self._outcome(data, row))
        again = data.draw(st.integers(0, 2), label="records seen before")
        for chunk in (self.requests, self.forwards):
            self._take(step, chunk, records, again)
        self.bench.apply(step)

    def _take(self, step: Step, records: list[FakeRecord], number: int, again: int) -> None:
        topic = records[0].topic if records else ""
        position = self.bench.store.positions.get(topic)
        begin = 0 if position is None else position.offset
        chunk = records[max(0, begin - again) : begin + number]
        if chunk:
            self.bench._take(step, chunk)

    def _outcome(self, data: st.DataObject, row: bytes) -> Outcome:
        kinds = ["delivered", "rejected", "dropped"]
        if self.bench.claims[row].commands:
            kinds = ["delivered", "unsent", "rejected", "dropped"]
        kind = data.draw(st.sampled_from(kinds), label="outcome")
        if kind == "delivered":
            return self.bench.delivered(row)
        if kind == "unsent":
            return Unsent(row)
        return Dropped(row, 1) if kind == "dropped" else Rejected(row, Reason.UNDELIVERABLE, "It failed for long.")

    @rule(data=st.data(), records=st.integers(1, 5))
    def the_worker_dies_between_events_and_changelog(self, data: st.DataObject, records: int) -> None:
        """The next life repeats the events, because it reads the same records first.

        What repeated a message that was being sent is accepted then: the next life does not know of that send.
        """
        told = len(self.bench.events)
        step = Step(self.bench.now_ms)
        for chunk in (self.requests, self.forwards):
            self._take(step, chunk, records, 0)
        lost = Workbench.told_by(step)
        self._restart()
        step = Step(self.bench.now_ms)
        for chunk in (self.requests, self.forwards):
            self._take(step, chunk, records, data.draw(st.integers(0, 2), label="records seen before"))
        again = self.bench.apply(step)

        assert {event["source"] for event in lost if event["event"] in ("accepted", "duplicate")} >= {
            event["source"] for event in again if event["event"] == "accepted"
        }
        assert len(self.bench.events) == told + len(again)

    @rule()
    def the_worker_dies_and_comes_back(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self.bench.close()
        self.bench.open()

    @rule(late=st.sampled_from([1, 60_000, 600_000, 3_600_000]))
    def time_goes_by(self, late: int) -> None:
        self.bench.now_ms += late
        step = Step(self.bench.now_ms)
        for id_ in self.bench.store.commands.expired(step.now_ms, 10):
            step.changes.commands[id_] = None
        for id_ in self.bench.store.delivered.expired(step.now_ms, 10):
            step.changes.delivered[id_] = None
        self.bench.apply(step)

    # what holds ------------------------------------------------------------------------------------------------------
    @invariant()
    def the_account_balances(self) -> None:
        self.bench.assert_balanced()
        assert_sound(self.bench.store)

    @invariant()
    def each_record_that_was_read_has_had_its_say(self) -> None:
        """Requests once; commands once, unless they wait on a row for its outcome.

        One that is remembered has its say for each request that comes late.
        """
        position = self.bench.store.positions.get(self.bench.settings.topics.requests)
        read = self.requests[: 0 if position is None else position.offset]
        waiting = {command.source for _, entry in self.bench.store.rows() for command in entry.commands}
        first = Counter(e["source"] for e in self.bench.events if e["event"] in FIRST)
        answers = Counter(e["by"] for e in self.bench.events if e["event"] in ANSWERS)
        for record in read:
            name, said = source(record), dict(record.headers)
            if said["delay-op"] in (b"schedule", b"nonsense"):
                assert first[name] == 1, name
            elif name in waiting:
                assert answers[name] == 0, name
            else:
                assert answers[name] >= 1, name


TestAccount = AccountMachine.TestCase
TestAccount.settings = settings(max_examples=share(100), stateful_step_count=25, deadline=None)
