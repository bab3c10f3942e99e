"""The store against plain dicts, whatever happens in whatever order; and its image rebuilt from the changelog."""

import shutil

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tables import Changes, ColdMark, Command, Entry, PartitionStore, Position, RememberedCommands, keys
from tables.changes import RememberedDelivery
from tables.entry import decode
from tests.harness.fuzz import share
from tests.tables.changelog import compacted, cut, replay
from tests.tables.rows import HOUR, NOW, WHOSE, apply, assert_sound, entry, fast_directory, image, key, put, rewrite

IDS = ["a", "b", "c"]
WORK = (
    ["schedule"] * 4
    + ["remove"] * 2
    + ["move", "command", "remember", "remember_delivery", "tell", "forget", "read_on"]
)
#: Few due times, so that many rows share a time; two of the times are in one hour.
DUES = [NOW + delta for delta in (0, 1, 2, HOUR, HOUR + 1, 3 * HOUR)]

ids = st.sampled_from(IDS)
dues = st.sampled_from(DUES)
destinations = st.sampled_from(["orders", "payments", "r"])


class StoreMachine(RuleBasedStateMachine):
    """Gathers changes as ingest and outcomes do, applies them, and compares the store with a model."""

    @initialize()
    def begin(self) -> None:
        self.place = fast_directory()
        self.store = PartitionStore(self.place / "live.db", WHOSE)
        self.follower = PartitionStore(self.place / "follower.db", WHOSE)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.step = Changes()
        self.rows: dict[bytes, Entry] = {}
        self.index: dict[str, bytes] = {}
        self.commands: dict[str, RememberedCommands] = {}
        self.delivered: dict[str, RememberedDelivery] = {}
        self.cold_marks: dict[str, ColdMark] = {}
        self.positions: dict[str, Position] = {}
        self.origins: dict[bytes, int] = {}
        self.offset = 0
        self.restored = 0

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.store.close()
            self.follower.close()
            shutil.rmtree(self.place)

    # the changes of a step -------------------------------------------------------------------------------------------
    @rule(data=st.data(), work=st.lists(st.sampled_from(WORK), min_size=1, max_size=8))
    def do_several_things_in_one_step(self, data: st.DataObject, work: list[str]) -> None:
        for what in work:
            getattr(self, what)(data)
        self.log += apply(self.store, self.step, NOW + len(self.log))
        self.step = Changes()

    def schedule(self, data: st.DataObject) -> None:
        """A new row; a pending one of the same id is replaced, now or, if it is being sent, by its outcome."""
        what = entry(data.draw(ids), data.draw(destinations))
        before = self.index.get(what.id)
        if before is not None and self._is_being_sent(data, before):
            self._mark(before, Command("replace", "x"))
        elif before is not None:
            self._remove(before)
        self._put(data.draw(dues), what)

    def remove(self, data: st.DataObject) -> None:
        if self.rows:
            self._remove(data.draw(st.sampled_from(sorted(self.rows))))

    def move(self, data: st.DataObject) -> None:
        if self.index:
            row = self.index[data.draw(st.sampled_from(sorted(self.index)))]
            what = self.rows[row]
            self._remove(row)
            self._put(data.draw(dues), entry(what.id, what.to))

    def command(self, data: st.DataObject) -> None:
        """A command on a row that is being sent is written on it."""
        rows = sorted(row for row in self.index.values() if row not in self.step.fresh)
        if rows:
            self._mark(data.draw(st.sampled_from(rows)), Command("cancel", "x"))

    def remember(self, data: st.DataObject) -> None:
        id_, expires = data.draw(ids), NOW + data.draw(st.integers(0, 5))
        self.commands[id_] = self.step.commands[id_] = RememberedCommands(NOW, expires, "orders-0-1")

    def remember_delivery(self, data: st.DataObject) -> None:
        id_, expires = data.draw(ids), NOW + data.draw(st.integers(0, 5))
        self.delivered[id_] = self.step.delivered[id_] = RememberedDelivery(data.draw(dues), expires)

    def tell(self, data: st.DataObject) -> None:
        id_, expires = data.draw(ids), NOW + data.draw(st.integers(0, 5))
        self.cold_marks[id_] = self.step.cold_marks[id_] = ColdMark(
            "orders-0-1", expires, kept=data.draw(st.booleans())
        )

    def forget(self, data: st.DataObject) -> None:
        if self.cold_marks:
            id_ = data.draw(st.sampled_from(sorted(self.cold_marks)))
            del self.cold_marks[id_]
            self.step.cold_marks[id_] = None
        if self.commands:
            id_ = data.draw(st.sampled_from(sorted(self.commands)))
            del self.commands[id_]
            self.step.commands[id_] = None
        if self.delivered:
            id_ = data.draw(st.sampled_from(sorted(self.delivered)))
            del self.delivered[id_]
            self.step.delivered[id_] = None

    def read_on(self, data: st.DataObject) -> None:
        topic, origin = data.draw(destinations), keys.origin_key("orders", data.draw(st.integers(0, 2)))
        self.offset += 1
        self.positions[topic] = self.step.positions[topic] = Position(self.offset, NOW, self.offset * 7)
        self.origins[origin] = self.step.origins[origin] = self.offset

    # the life of a store ---------------------------------------------------------------------------------------------
    @rule(until=dues, limit=st.integers(1, 9), forget=st.booleans())
    def look_ahead(self, until: int, limit: int, *, forget: bool) -> None:
        for store in (self.store, self.follower):
            if forget:
                store.counts.near.forget()
            store.look_ahead(until, limit)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = PartitionStore(self.place / "live.db", WHOSE)
        assert self.store.offset == len(self.log)

    @rule(data=st.data())
    def follow_some_of_the_changelog(self, data: st.DataObject) -> None:
        """A second store reads on from where it is, in chunks of any size, and may begin again further back."""
        again = data.draw(st.integers(0, self.follower.offset), label="begins again at")
        end = data.draw(st.integers(self.follower.offset, len(self.log)), label="reads to")
        replay(self.follower, cut(data, self.log[again:end]), again)

    @rule(data=st.data(), drop=st.booleans(), twice=st.booleans())
    def restore_from_nothing(self, data: st.DataObject, *, drop: bool, twice: bool) -> None:
        self.restored += 1
        store = PartitionStore(self.place / f"restored-{self.restored}.db", WHOSE)
        clean = data.draw(st.integers(0, len(self.log)), label="compacted up to")
        records = compacted(self.log, clean, drop_tombstones=drop)
        for _ in range(1 + twice):
            replay(store, cut(data, records), 0)
        self._same(store)
        store.wipe()

    # what holds ------------------------------------------------------------------------------------------------------
    @invariant()
    def it_is_what_the_dicts_say(self) -> None:
        assert dict(self.store.rows()) == self.rows
        assert self.store.find_many(IDS) == [self.index.get(id_) for id_ in IDS]
        assert [self.store.find(id_) for id_ in IDS] == [self.index.get(id_) for id_ in IDS]
        assert self.store.commands.get_many(IDS) == [self.commands.get(id_) for id_ in IDS]
        assert [self.store.delivered.get(id_) for id_ in IDS] == [self.delivered.get(id_) for id_ in IDS]
        assert [self.store.cold_marks.get(id_) for id_ in IDS] == [self.cold_marks.get(id_) for id_ in IDS]
        assert (self.store.positions, self.store.origins) == (self.positions, self.origins)
        assert_sound(self.store)

    @rule(data=st.data(), now=dues, limit=st.integers(1, 5))
    def what_is_due_comes_in_order_from_any_start(self, data: st.DataObject, now: int, limit: int) -> None:
        start = data.draw(st.sampled_from([b"", *sorted(self.rows), key(now), key(now + 1)]))
        following = sorted(row for row in self.rows if row >= start)
        due = [row for row in following if keys.due_of(row) <= now]

        rows, then = self.store.due(now, start, limit)
        assert [(row, decode(raw)) for row, raw in rows] == [(row, self.rows[row]) for row in due[:limit]]
        rest = following[len(rows) :]
        assert then is not None or not rest
        assert then is None or max([start, *(row for row, _ in rows)]) <= then <= min(rest, default=keys.ROWS_END)
        assert then is None or keys.due_of(then) > now or len(rows) == limit
        assert self.store.next_row(start) == (following[0] if following else None)
        assert self.store.count(DUES[1], now, 100) == sum(DUES[1] <= keys.due_of(row) <= now for row in self.rows)

    @rule(now=st.integers(NOW - 1, NOW + 6), limit=st.integers(1, 3))
    def what_is_remembered_ends_in_order(self, now: int, limit: int) -> None:
        marks = sorted((mark.expires_ms, id_) for id_, mark in self.commands.items() if mark.expires_ms <= now)
        delivered = sorted((mark.expires_ms, id_) for id_, mark in self.delivered.items() if mark.expires_ms <= now)

        assert self.store.commands.expired(now, limit) == [id_ for _, id_ in marks[:limit]]
        assert self.store.delivered.expired(now, limit) == [id_ for _, id_ in delivered[:limit]]
        told = sorted((mark.expires_ms, id_) for id_, mark in self.cold_marks.items() if mark.expires_ms <= now)
        assert self.store.cold_marks.expired(now, limit) == [id_ for _, id_ in told[:limit]]

    @rule()
    def a_follower_that_has_read_everything_is_the_same(self) -> None:
        replay(self.follower, [self.log[self.follower.offset :]], self.follower.offset)
        self._same(self.follower)

    def _same(self, other: PartitionStore) -> None:
        assert image(other) == image(self.store)
        assert_sound(other)
        assert (other.positions, other.origins) == (self.store.positions, self.store.origins)

    # -----------------------------------------------------------------------------------------------------------------
    def _is_being_sent(self, data: st.DataObject, row: bytes) -> bool:
        written = row not in self.step.fresh
        return written and (bool(self.rows[row].commands) or data.draw(st.booleans(), label="is being sent"))

    def _put(self, due: int, what: Entry) -> None:
        self.offset += 1
        row = key(due, self.offset)
        put(self.step, row, what)
        self.rows[row] = what
        self.index[what.id] = row

    def _remove(self, row: bytes) -> None:
        what = self.rows.pop(row)
        self.step.remove(row, what)
        if self.index.get(what.id) == row:
            del self.index[what.id]

    def _mark(self, row: bytes, command: Command) -> None:
        what = self.rows[row]
        marked = self.rows[row] = entry(what.id, what.to, *what.commands, command)
        rewrite(self.step, row, marked)
        if command.op == "replace":
            del self.index[what.id]


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=share(80), stateful_step_count=20, deadline=None)
