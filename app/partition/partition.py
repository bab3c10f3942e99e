"""One partition at work: a single writer that turns records and outcomes into steps, one after the other.

Everything that changes the partition goes through `_run`, so that steps never cross. What comes while a step is being
committed is gathered into the next one: the busier, the larger the steps.
"""

import asyncio
import contextlib
import enum
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from app.clock import Clock
from app.commit.journal import Journal
from app.errors import InputGone
from app.ingest.admission import Admission
from app.ingest.ingest import Ingest
from app.ingest.policy import Policy
from app.kafka.transactions.transaction import Untaken
from app.partition import pacing
from app.route import named
from app.settings import Settings
from app.steps.cold_tier import Cold
from app.steps.limits import Limits
from app.steps.order_memory import OrderMemory
from app.steps.outcomes import Delivered, Outcome, Outcomes, Unsent
from app.steps.row_version import Downgrade
from app.steps.step import Step
from app.steps.transitions import ended
from punctual.contract.native import Record
from punctual.contract.request import Refusal
from tables import Entry, PartitionStore, keys
from tables.entry import VERSION

log = logging.getLogger(__name__)

#: Records decoded in one go, about 2 ms: deliveries that fall due meanwhile wait that long.
_SLICE = 200
_STEP_BYTES = 512 * 1024
#: After a step of so much, some hundred messages in or out, there is likely to be more: the next steps, and looks for
#: records, come sooner for so long.
_MUCH_BYTES, _MUCH_FOR_S = 32 * 1024, 0.1
#: While messages are being delivered, slices and steps are so many times shorter.
_SHORTER = 4
_STEP_OUTCOMES = 20_000
#: What it takes to remove a row and to remember its delivery, beside its id, three times, and the name of its source.
_ROW_BYTES = 200
#: Where a message was due so soon after the step that took it in, there is a hurry so long: it may be the rule.
_SOON_MS, _SOON_FOR_S = 20, 1.0
_CHECK_ALONE_S = 5.0
#: So much is forgotten with a step, of a kind; and so much of it, whatever the ids: it has its place in the batch.
_EXPIRE, _EXPIRE_BYTES, _TOMBSTONE_BYTES = 1_000, 128 * 1024, 16


#: Where a message goes: cluster (None: our own), topic, partition (-1: not known yet).
Route = tuple[str | None, str, int]
#: The partition of a route that a message without a key waits for: any of the topic. And that of callbacks' routes,
#: whose cluster is the host: what does not fit is held like a message whose destination is blocked.
ANY, CALLBACK = -3, -2


class State(enum.StrEnum):
    """Where a partition is on its way to work."""

    RESTORING = "restoring"
    CATCHING_UP = "catching up"
    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"


class Topics(Protocol):
    """What is known of destination topics."""

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it is not there."""
        ...

    async def learn(self, topics: Iterable[str]) -> None:
        """Ask the cluster about topics that are not known."""
        ...


class Delivery(Protocol):
    """Claimed rows on their way to one destination partition."""

    route: Route
    rows: "list[tuple[Partition, bytes]]"
    sent_ms: int

    def append(self, row: "tuple[Partition, bytes]", entry: Entry, now_ms: int) -> bool:
        """Add a row; False if it doesn't fit any more."""
        ...

    def failed(self, error: Untaken) -> None:
        """Hear that one of those in its transaction, itself or another, has not been taken."""

    def struck(self, error: Untaken) -> bool:
        """Return whether it cannot be delivered for the reason that `error` gives."""
        ...

    def untaken(self, error: Untaken) -> None:
        """Hear that the destination has not taken them."""


class Firing(Protocol):
    """What looks for due rows."""

    def notify(self, partition: "Partition") -> None:
        """Look again: there may be something to fire."""

    def top_up(self, partition: "Partition") -> None:
        """Fire what is due by now: it comes along in the step that is about to be committed."""


class Partition:
    """One owned partition: its store, what is in flight, and the writer task."""

    def __init__(
        self,
        number: int,
        settings: Settings,
        clock: Clock,
        journal: Journal,
        topics: Topics,
        limits: Limits,
        firing: Firing,
        row_version: Callable[[], int] = lambda: VERSION,
        admission: Admission | None = None,
    ) -> None:
        """Begin without a store; `firing` finds what is due, rows are written in `row_version`.

        `admission` knows what clusters do of destinations.
        """
        self._row_version = row_version
        self.number, self._settings, self._clock, self._journal = number, settings, clock, journal
        self._topics, self._limits, self._firing = topics, limits, firing
        self._policy = Policy(settings, admission)
        self.state = State.RESTORING
        self.reason = ""
        #: Rows whose sends are outstanding, until the step that ends them is committed; `_out` those without outcome.
        self.claims: dict[bytes, Entry] = {}
        self._out: set[bytes] = set()
        self._routes: dict[bytes, Route] = {}
        self.in_flight: Counter[Route] = Counter()
        self._step: Step | None = None
        #: Scans for due rows begin here; `held` lists rows passed over because their route is blocked.
        self.cursor = b""
        self.held: dict[Route, bytes] = {}
        self._skipped: bytes | None = None
        #: What was last heard of each input, and when (app/due/input_liveness.py); steps that have taken records in.
        self.heard: dict[str, tuple[float | None, float]] = {}
        self.steps_read = 0
        self._inbox: deque[tuple[Sequence[Record], asyncio.Future[None]]] = deque()
        self._outcomes: deque[Outcome] = deque()
        #: Deliveries for the next steps, and those of them that take more rows.
        self._deliveries: deque[Delivery] = deque()
        self._waiting: dict[Route, Delivery] = {}
        self._wake = asyncio.Event()
        #: The beat when there is no hurry, until when there is one, and when the last step began.
        self._calm_s = pacing.calm_s(exactly_once=settings.exactly_once)
        self._hurried_until = self._began = 0.0
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._store: PartitionStore | None = None

    @property
    def store(self) -> PartitionStore:
        """The open store."""
        assert self._store is not None, f"partition {self.number} is not open"
        return self._store

    # coming and going ------------------------------------------------------------------------------------------------
    def start(self, store: PartitionStore, fatal: Callable[[BaseException], None]) -> None:
        """Begin to work on a restored store; `fatal` hears of what must end the process."""
        self._store = store
        self.cursor, self.held, self._skipped, self._step = b"", {}, None, None
        for left in (
            self.claims,
            self._out,
            self._routes,
            self.in_flight,
            self._outcomes,
            self._deliveries,
            self._waiting,
        ):
            left.clear()
        self._downgrade = Downgrade(self.number, self._settings.row_version, store)
        self._cold = cold = Cold(self.number, self._settings, store, self._limits)
        self.memory = memory = OrderMemory(self._settings, store)
        self._ingest = Ingest(self.number, self._settings, self._policy, store, self.claims, self._limits, cold, memory)
        self._outcome = Outcomes(self.number, self._settings, self.claims, self._limits, cold, memory)
        self._closing = False
        self.heard.clear()
        #: Where each input goes on: records only ever come from there on.
        self._next = {topic: position.offset for topic, position in store.positions.items()}
        self.state = State.CATCHING_UP
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(lambda task: _report(task, fatal))

    async def pause(self, limit_s: float) -> None:
        """Stop firing, finish what is in flight as far as `limit_s` allows, take no more records."""
        if self._task is None:
            self.state = State.PAUSED if self.state is not State.STOPPED else self.state
            return
        self.state = State.PAUSED
        for _, done in self._inbox:
            done.cancel()
        self._inbox.clear()
        self._closing = True
        self._wake.set()
        _, late = await asyncio.wait([self._task], timeout=limit_s)
        for task in late:
            log.warning("partition %d: %d sends abandoned in flight", self.number, len(self.claims))
            task.cancel()
            await asyncio.wait([task])
        self._task = None

    def stop(self, reason: str) -> None:
        """Stop with a reason for people to read."""
        self.state, self.reason = State.STOPPED, reason
        log.error("partition %d is stopped: %s", self.number, reason)

    @property
    def working(self) -> bool:
        """Whether records are taken."""
        return self._task is not None and not self._closing

    @property
    def idle(self) -> bool:
        """Whether all records that have come are in the table."""
        return not self._inbox

    # what comes in ---------------------------------------------------------------------------------------------------
    def offer(self, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Take records of one input topic, in order; the future is done when they are in the table.

        Raises InputGone if they go back: a consumer does that when its log ends before the position that it asks for.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.working:
            done.cancel()
            return done
        topic, first = records[0].topic, records[0].offset
        if first < self._next.get(topic, 0):
            raise InputGone([topic])
        self._next[topic] = records[-1].offset + 1
        self._inbox.append((records, done))
        self._wake.set()
        return done

    def tell(self, outcome: Outcome) -> None:
        """Take the outcome of a send; one that comes after the partition's life in which it was sent counts too."""
        if isinstance(outcome, Delivered):
            outcome = replace(outcome, rows=[row for row in outcome.rows if row[0] in self._out])
            self._out.difference_update([key for key, _ in outcome.rows])
        elif outcome.row not in self._out:
            return
        else:
            self._out.discard(outcome.row)
        self._outcomes.append(outcome)
        self._wake.set()

    def fire(self, delivery: Delivery, *, first: bool = False) -> None:
        """Take deliveries that are to be part of a step (exactly once), `first` before those that wait."""
        if first:
            self._deliveries.appendleft(delivery)
        else:
            self._deliveries.append(delivery)
            self._waiting[delivery.route] = delivery
        self._wake.set()

    def waiting(self, route: Route) -> Delivery | None:
        """Return the last deliveries for a route that wait for a step: they take more rows until then."""
        return self._waiting.get(route)

    def busy(self, key: bytes) -> bool:
        """Return whether a row is being sent, or changed by the step that is being committed: then it is not fired."""
        if key in self.claims:
            return True
        if self._step is not None and self._step.changes.touches(key):
            self._skipped = key if self._skipped is None else min(key, self._skipped)
            return True
        return False

    def claim(self, key: bytes, entry: Entry, route: Route | None = None) -> None:
        """Mark a row as being sent: one outcome is to follow."""
        self.claims[key] = entry
        self._out.add(key)
        if route is not None:
            self._routes[key] = route
            self.in_flight[route] += 1

    def _unclaim(self, rows: Iterable[bytes]) -> None:
        ended = Counter[Route]()
        claims, routes = self.claims, self._routes
        for key in rows:
            claims.pop(key, None)
            route = routes.pop(key, None)
            if route is not None:
                ended[route] += 1
        self.in_flight -= ended  # routes that have none left go

    def sending(self, blocked: Callable[[Route], bool]) -> int:
        """Rows whose sends are outstanding, those aside whose route is blocked: they must not stop their neighbours."""
        return len(self.claims) - sum(rows for route, rows in self.in_flight.items() if blocked(route))

    def passed(self, point: str) -> None:
        """Pass a named point on the route of a row."""
        self._journal.reached(point, None)

    def release(self, rows: Iterable[bytes], route: Route) -> None:
        """Take rows back that were not sent after all, because their `route` is blocked."""
        for row in rows:
            if row not in self._out:
                continue
            if self.claims[row].commands:
                self.tell(Unsent(row))
            else:
                self._out.discard(row)
                self.hold(row, self.claims[row], route)
                self._unclaim([row])

    @property
    def quiet(self) -> bool:
        """Whether no row before the cursor is left to be dealt with, and no step may be about to put one there."""
        return not self.claims and not self.held and self._skipped is None and self._step is None

    def oldest(self) -> bytes | None:
        """Return the key of the first row that is not dealt with, or None."""
        known = [*self.claims, *self.held.values()]
        if self._skipped is not None:
            known.append(self._skipped)
        following = self.store.next_row(self.cursor)
        if following is not None:
            known.append(following)
        return min(known, default=None)

    def hold(self, row: bytes, entry: Entry, route: Route) -> None:
        """Pass a row over until its `route` is free, or any partition if it may go to any."""
        if entry.key is None and entry.partition is None and route[2] >= 0:
            route = (route[0], route[1], ANY)
        self.held[route] = min(row, self.held.get(route, row))

    def held_ms(self) -> dict[str, int]:
        """Return the oldest due time that waits for each destination that takes nothing."""
        held: dict[str, int] = {}
        for (cluster, topic, number), row in self.held.items():
            name = named(None if number == CALLBACK else cluster, topic)
            held[name] = min(keys.due_of(row), held.get(name, 1 << 62))
        return held

    # the writer ------------------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while not (self._closing and not self._outcomes and not self.claims and not self._cold.owed):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_ALONE_S):  # wait_for() may swallow a cancellation (Python 3.11)
                    await self._wake.wait()
            if not self._closing:
                await asyncio.sleep(self._until_beat(loop.time()))
            self._wake.clear()
            self._began = loop.time()
            await self._do_step()
            if loop.time() - checked >= _CHECK_ALONE_S:
                checked = loop.time()
                await self._journal.check_alone(self.number, self._clock.now_ms())

    def _until_beat(self, now: float) -> float:
        """Return the seconds until the next step may begin: it waits for company, unless there is a hurry.

        Records wait less than outcomes. Exactly once all wait alike, for each step is a transaction; the first after a
        pause does not, for it may deliver.
        """
        if self.hurried(now) or len(self.claims) >= self._settings.fire_room:
            return pacing.until(pacing.SHORT_S, now)
        if self._settings.exactly_once:
            return pacing.until(self._calm_s, now) if now < self._began + self._calm_s else 0.0
        return pacing.until(pacing.SHORT_S if self._inbox else self._calm_s, now)

    def hurried(self, now: float) -> bool:
        """Return whether there is a hurry at `now`, by the loop's clock."""
        return now < self._hurried_until

    def _hurry(self, seconds: float) -> None:
        self._hurried_until = max(self._hurried_until, asyncio.get_running_loop().time() + seconds)

    async def _do_step(self) -> None:
        """Commit what has come. Nothing refers to the step afterwards: it may have a megabyte."""
        step = self._step = self._new_step()
        done = await self._gather(step)
        left = bool(self._inbox or self._outcomes)
        await self._commit(step)
        if left or step.size >= _MUCH_BYTES:
            self._hurry(_MUCH_FOR_S)
        for future in done:
            if not future.done():
                future.set_result(None)

    def _new_step(self) -> Step:
        now_ms = self._clock.now_ms()  # before its offset: it notices jumps
        return Step(now_ms, now_ms - self._clock.offset_ms, self._row_version())

    async def _gather(self, step: Step) -> "list[asyncio.Future[None]]":
        """Put what has come into one step, within bounds; return the futures of the records that are in it."""
        self._cold.settle_debts(step)
        for _ in range(min(len(self._outcomes), _STEP_OUTCOMES)):
            self._outcome.apply(step, self._outcomes.popleft())
            if step.size >= _STEP_BYTES:
                break
        done, limit = [], _STEP_BYTES // self._shorter
        while self._inbox and step.size < limit:
            records, future = self._inbox.popleft()
            taken = await self._ingest_records(step, records)
            if taken < len(records):
                self._inbox.appendleft((records[taken:], future))
                break
            done.append(future)
        if self._inbox or self._outcomes or self._cold.owed:
            self._wake.set()
        if step.size < 2 * _STEP_BYTES:  # no large row is in it: there is room for what expires
            self._expire(step)
            if not self._downgrade.over and step.size < _STEP_BYTES:
                self._downgrade.rewrite(step, self.claims.__contains__)
                self._wake.set()
        return done

    async def _ingest_records(self, step: Step, records: Sequence[Record]) -> int:
        """Ingest records in slices that leave time for deliveries; return how many fit into the step."""
        begin = 0
        while begin < len(records):
            end = min(begin + _SLICE // self._shorter, len(records))
            found = self._ingest.read(step, records[begin:end])
            # Few are different, so that this is looked at once for many.
            wanted = {
                (asked.cluster, asked.to, asked.partition or 0)
                for _, asked in found
                if not isinstance(asked, Refusal) and asked.to
            }
            # A topic may have got more partitions since it was last seen.
            unknown = {topic for cluster, topic, n in wanted if cluster is None and self._topics.partitions(topic) <= n}
            if unknown:
                await self._topics.learn(unknown)
            if not all(self._policy.is_usual(cluster, topic) for cluster, topic, _ in wanted):
                found = await self._policy.admitted(found, forwarded=records[0].topic == self._settings.forwards)
            limit = _STEP_BYTES // self._shorter
            taken = self._ingest.apply(step, found, self._topics.partitions, limit)
            await asyncio.sleep(0)
            begin = end - (len(found) - taken)
            if taken < len(found) or step.size >= limit:  # beside a large row there is no room for another
                return begin
        return begin

    @property
    def _shorter(self) -> int:
        """By how much slices and steps are shorter now: what is on its way waits for those of all partitions."""
        return _SHORTER if self.claims else 1

    def _expire(self, step: Step) -> None:
        """Forget what has been remembered for long enough, and more of it than a step adds."""
        limit, size = max(_EXPIRE, 2 * len(step.changes.orders)), 0
        expired = self.store.orders.expired(step.broker_ms, limit)
        for count, id_ in enumerate(expired, 1):
            step.changes.orders.setdefault(id_, None)
            size += len(id_.encode()) + _TOMBSTONE_BYTES
            if size >= _EXPIRE_BYTES or count == limit:
                self._wake.set()
                break
        for id_ in self.store.delivered.expired(step.broker_ms, _EXPIRE):
            step.changes.delivered.setdefault(id_, None)
        for id_ in self.store.told.expired(step.broker_ms, _EXPIRE):
            step.changes.told.setdefault(id_, None)

    async def _commit(self, step: Step) -> None:
        """Commit a step, with what is due as far as destinations take it (exactly once)."""
        self._load(step)
        while step:
            try:
                await self._journal.commit(self.number, step)
            except Untaken as untaken:
                self._unload(step, untaken)
            else:
                self._finish(step)
                return
        self._step = None

    def _load(self, step: Step) -> None:
        """Make deliveries part of a step, as far as there is room for what removes their rows."""
        if self._settings.exactly_once:
            self._firing.top_up(self)
        deliveries, size = list[Delivery](), step.size
        while self._deliveries and (not deliveries or size < _STEP_BYTES):
            delivery = self._deliveries.popleft()
            delivery.sent_ms = self._clock.wall_ms()
            if self._waiting.get(delivery.route) is delivery:
                del self._waiting[delivery.route]
            deliveries.append(delivery)
            entries = (self.claims[key] for _, key in delivery.rows)
            size += sum(_ROW_BYTES + 3 * len(entry.id) + len(entry.source) for entry in entries)
        if self._deliveries:
            self._wake.set()
        step.deliveries, step.settle = deliveries, self._outcome.apply

    def _unload(self, step: Step, untaken: Untaken) -> None:
        """Take deliveries out of a step whose transaction was aborted: those that are not to blame come next."""
        deliveries = [*step.deliveries, *self._deliveries]  # what came meanwhile must not overtake what is tried again
        step.deliveries = ()
        self._deliveries.clear()
        self._waiting.clear()
        for delivery in deliveries:
            delivery.failed(untaken)
        for delivery in reversed(deliveries):
            if delivery.struck(untaken):
                delivery.untaken(untaken)
            else:
                self.fire(delivery, first=True)

    def _finish(self, step: Step) -> None:
        """Take note of a committed step."""
        self._out.difference_update(step.fired)
        self._unclaim(step.fired)
        self.steps_read += bool(step.changes.positions)
        self._step = None
        lowest = min(step.changes.fresh, default=None)
        if lowest is not None and keys.due_of(lowest) <= step.now_ms + _SOON_MS:
            self._hurry(_SOON_FOR_S)
        for key in (lowest, self._skipped):
            if key is not None and key < self.cursor:
                self.cursor = key
        self._skipped = None
        self._firing.notify(self)

    async def prepare(self, store: PartitionStore) -> None:
        """End rows that a later row of the same id had replaced when the process died."""
        step = self._new_step()
        for key in list(store.clashes):
            entry = store.entry(key)
            if entry is None or store.find(entry.id) == key:
                store.clashes.discard(key)
                continue
            step.changes.remove(key, entry)
            ended(step, "replaced", keys.due_of(key), entry)
        if step:
            await self._journal.commit(self.number, step)


def _report(task: "asyncio.Task[None]", fatal: Callable[[BaseException], None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        fatal(error)
