"""One partition at work: a single writer that turns records and outcomes into steps, one after the other.

Everything that changes the partition goes through `_run`, so that steps never cross. What comes while a step is being
committed is gathered into the next one: the busier, the larger the steps.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from app.base.clock import FAST_MS
from app.base.errors import InputGone
from app.base.process.tasks import telling
from app.engine.ingest.policy import Policy, no_topic
from app.engine.partition.arrived import ArrivedRow
from app.engine.partition.in_flight import InFlight
from app.engine.partition.pacing import SOON_MS, Pacing
from app.engine.partition.ports import Firing
from app.engine.partition.reminder import Reminder
from app.engine.partition.services import Services
from app.engine.partition.state import State
from app.engine.partition.step_builder import Chunk, StepBuilder
from app.engine.partition.step_deliveries import StepDeliveries
from app.engine.steps.command_memory import CommandMemory
from app.engine.steps.context import PartitionContext
from app.engine.steps.delivery import Delivery
from app.engine.steps.outcomes import Delivered, Outcome, Rejected, Unsent
from app.engine.steps.route import Route
from app.engine.steps.step import Step
from app.kafka.transactions.transaction import Untaken
from punctual.contract.record import Record
from punctual.contract.request import Reason
from tables import Entry, PartitionStore, keys

log = logging.getLogger(__name__)

#: After a step of so much, some hundred messages in or out, there is likely to be more: the next steps, and looks for
#: records, come sooner for so long.
_MUCH_BYTES, _MUCH_FOR_S = 64 * 1024, 0.1
#: Where a message was due soon after the step that took it in, there is a hurry so long: it may be the rule.
_SOON_FOR_S = 1.0
#: Lives are told apart over all partitions of a process: one that comes back is another object with its old number.
_LIVES = itertools.count(1)


class Partition:
    """One owned partition: its store, what is in flight, and the writer task."""

    def __init__(
        self,
        number: int,
        services: Services,
        firing: Firing,
        lost_inputs: "Callable[[Partition], None]" = lambda _: None,
    ) -> None:
        """Begin without a store; `firing` finds what is due, `lost_inputs` sees to it that inputs are read again."""
        self.number, self._services, self._firing, self._lost_inputs = number, services, firing, lost_inputs
        self._settings, self._clock, self._journal = services.settings, services.clock, services.journal
        self._policy = Policy(services.settings, services.admission, services.quotas)
        self._policy.absent = self._reject_absent
        self._pacing = Pacing(exactly_once=services.settings.exactly_once)
        self._state, self._reason = State.RESTORING, ""
        self.in_flight = InFlight()
        #: The number of this life, from one start to the next, and how many steps have taken records in.
        self.life = self.steps_read = 0
        self._inbox, self._outcomes = deque[Chunk](), deque[Outcome]()
        self._deliveries = StepDeliveries()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._store: PartitionStore | None = None
        #: When the step began that is being committed, by the loop's clock.
        self.committing_s: float | None = None

    @property
    def store(self) -> PartitionStore:
        """The open store."""
        assert self._store is not None, f"partition {self.number} is not open"
        return self._store

    @property
    def claims(self) -> dict[bytes, Entry]:
        """Rows whose sends are outstanding."""
        return self.in_flight.claims

    @property
    def memory(self) -> CommandMemory:
        """What is remembered of commands for ids that are not there."""
        return self._context.memory

    # coming and going ------------------------------------------------------------------------------------------------
    @property
    def state(self) -> State:
        """Where it is on its way to work."""
        return self._state

    @property
    def reason(self) -> str:
        """Why it is stopped, for people to read."""
        return self._reason

    def restore(self) -> None:
        """Note that the store is being restored."""
        self._state, self._reason = State.RESTORING, ""

    def start(self, store: PartitionStore, fatal: Callable[[BaseException], None]) -> None:
        """Begin to work on a restored store, and to catch up; `fatal` hears of what must end the process."""
        self._store = store
        self.in_flight.clear()
        self._outcomes.clear()
        self._deliveries.clear()
        self._context = PartitionContext.of(self.number, self._settings, self._services.limits, store, self.claims)
        topics, keeps = self._services.topics, self._services.traces is not None
        self._builder = StepBuilder(self._context, self._policy, topics, self._inbox, self._outcomes, keeps=keeps)
        self._closing = False
        self.life = next(_LIVES)
        #: Where each input goes on: records only ever come from there on.
        self._next = {topic: position.offset for topic, position in store.positions.items()}
        self.catch_up()
        self._alone = Reminder(self._services.check_alone_s, self._wake.set)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(telling(fatal))

    def catch_up(self) -> None:
        """Fire nothing until go_live(): what waits in the inputs is read first."""
        self._state = State.CATCHING_UP

    def go_live(self) -> None:
        """Fire what is due from now on."""
        self._state = State.LIVE

    def expect(self, rows: Collection[bytes]) -> None:
        """Have commands wait on rows that the last owner may have sent, until settle(), as if they were being sent.

        A command that gave one another row meanwhile would have a message sent again that has arrived.
        """
        self.in_flight.claim_unknown(rows, self.store.entry)

    def settle(self, arrived: Iterable[ArrivedRow]) -> None:
        """Take those of the expected rows for delivered that have arrived; the others have not been sent."""
        settled = 0
        for one in arrived:
            if self.in_flight.waits(one.row):
                self.tell(Delivered([one.row], one.offset, one.topic, one.partition, one.at_ms))
                settled += 1
        for row in self.in_flight.end_unknown():
            self.tell(Unsent(row))
        if settled:
            sentence = "partition %d: %d messages are not sent again, because the previous owner sent them"
            log.info(sentence, self.number, settled, extra={"partition": self.number})

    async def follow_zones(self, limit_s: float, *, overdue: bool) -> None:
        """Plan series by the zone rules of this worker: those that are not found within `limit_s`, in later steps.

        First those that cannot have been sent before this life; then, when that is known of the others, the `overdue`.
        """
        series = self._builder.replanning
        done = series.finish() if overdue else series.begin(keys.due_bound(self._clock.wall_ms() + 2 * FAST_MS))
        if done is not None:
            self._wake.set()
            await asyncio.wait([done], timeout=limit_s)

    def lose_inputs(self) -> None:
        """Have what waits in the inputs read before anything else is fired: nothing was heard of them for a while.

        What was chosen and is not on its way yet is chosen again after that.
        """
        self._firing.abandon(self)
        self.withdraw(lambda _: True)
        self._lost_inputs(self)

    async def see_alone(self) -> None:
        """Wait until it is seen that nobody else writes to the changelog; if somebody does, the process ends."""
        await self._alone.looked()

    async def pause(self, limit_s: float) -> None:
        """Stop firing, finish what is in flight as far as `limit_s` allows, take no more records."""
        if self._task is None:
            self._state = State.PAUSED if self._state is not State.STOPPED else self._state
            return
        self._state = State.PAUSED
        self._drop_inbox()
        self._closing = True
        self._wake.set()
        _, late = await asyncio.wait([self._task], timeout=limit_s)
        for task in late:
            sentence = "partition %d: %d sends abandoned in flight"
            log.warning(sentence, self.number, len(self.claims), extra={"partition": self.number})
            task.cancel()
            await asyncio.wait([task])
        if late:
            self.in_flight.clear()
            self._firing.abandon(self)
        self._drop_inbox()  # a step that was being built has put back what it had no room for
        self._task = None

    def _drop_inbox(self) -> None:
        """Take none of the records that have come: they are read again, with those before them."""
        for _, done in self._inbox:
            done.cancel()
        self._inbox.clear()

    def stop(self, reason: str) -> None:
        """Stop with a reason for people to read."""
        self._state, self._reason = State.STOPPED, reason
        log.error("partition %d is stopped: %s", self.number, reason, extra={"partition": self.number})

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

    def _reject_absent(self, id_: str, source: str, to: str) -> None:
        """Reject a message whose topic was hoped for, if it is still that message which waits."""
        row = self.store.find(id_) if self.working and self._store is not None else None
        entry = None if row is None or self.in_flight.busy(row) else self.store.entry(row)
        if row is not None and entry is not None and (entry.source, entry.to) == (source, to):
            self.in_flight.claim(row, entry)
            self.tell(Rejected(row, Reason.UNKNOWN_TOPIC, no_topic(to)))

    def tell(self, outcome: Outcome) -> None:
        """Take the outcome of a send; one from before the last start counts if its row is being sent again."""
        answered = self.in_flight.answered(outcome)
        if answered:
            self._outcomes.extend(answered)
            self._wake.set()

    def enqueue(self, delivery: Delivery, *, first: bool = False) -> None:
        """Take deliveries that are to be part of a step (exactly once), `first` before those that wait."""
        self._deliveries.add(delivery, first=first)
        self._wake.set()

    def waiting(self, route: Route) -> Delivery | None:
        """Return the last deliveries for a route that wait for a step: they take more rows until then."""
        return self._deliveries.open(route)

    def passed(self, point: str) -> None:
        """Pass a named point in the delivery of a row; fault tests end the process here."""
        self._journal.reached(point, None)

    def release(self, rows: Iterable[bytes], route: Route) -> None:
        """Take rows back that were not sent after all, because their `route` is blocked."""
        for row in rows:
            if not self.in_flight.waits(row):
                continue
            entry = self.claims[row]
            if entry.commands:
                self.tell(Unsent(row))
            else:
                self.in_flight.hold(row, entry, route)
                self.in_flight.end([row])

    def withdraw(self, held_back: Callable[[Route], bool]) -> None:
        """Take back what waits for a step (exactly once) on routes that are to be held back."""
        for delivery in self._deliveries.withdraw(held_back):
            self.release(delivery.runs[0][1], delivery.route)

    def skip_settled(self) -> None:
        """Let the store begin its scans at the cursor, if nothing before it is left."""
        if self.in_flight.quiet:
            self.store.begin_at(self.in_flight.cursor)

    def is_hurried(self, now: float) -> bool:
        """Return whether there is a hurry at `now`, by the loop's clock."""
        return self._pacing.is_hurried(now)

    # the writer ------------------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        loop, alone = asyncio.get_running_loop(), self._alone  # a life that ends late must not end the next one's
        try:
            while not (self._closing and not self._outcomes and not self.claims and not self._builder.owes):
                await self._wake.wait()
                if not self._closing:
                    await asyncio.sleep(self._until_step(loop.time()))
                self._wake.clear()
                self._pacing.begin(loop.time())
                await self._do_step()
                if alone.due:
                    await alone.look(self._journal.check_alone(self.number, self._clock.now_ms()))
        finally:
            alone.cancel()

    def _until_step(self, now: float) -> float:
        return self._pacing.until_step(now, full=self.in_flight.full, records=bool(self._inbox))

    async def _do_step(self) -> None:
        """Commit what has come. Nothing refers to the step afterwards: it may have a megabyte."""
        step = self._new_step()
        self.in_flight.begin_step(step)
        full = bool(self.claims) and self.in_flight.full and not self._journal.delivers
        done: list[asyncio.Future[None]] = []
        if self._deliveries.crowded_out:  # this step is theirs
            self._wake.set()
        else:
            done = await self._builder.build(step, self._wake.set, full=full)
        left = bool(self._inbox or self._outcomes)
        await self._commit(step)
        if left or step.size >= _MUCH_BYTES:
            self._pacing.hurry(asyncio.get_running_loop().time(), _MUCH_FOR_S)
        for future in done:
            if not future.done():
                future.set_result(None)

    def _new_step(self) -> Step:
        now_ms = self._clock.now_ms()  # before its offset: it notices jumps
        version = self._services.row_version(self.store.row_version)
        return Step(now_ms, now_ms - self._clock.offset_ms, version)

    async def _commit(self, step: Step) -> None:
        """Commit a step, with what is due as far as destinations take it (exactly once)."""
        if self._deliveries.outdated(asyncio.get_running_loop().time()):
            self.withdraw(lambda _: True)
        if self._journal.delivers:
            self._firing.top_up(self)
        self._deliveries.put_into(step, self._clock.wall_ms())
        if self._deliveries:
            self._wake.set()
        while step:
            self.committing_s = asyncio.get_running_loop().time()
            try:
                for delivered in await self._journal.deliver(self.number, step):
                    self._builder.apply(step, delivered)
                await self._journal.commit(self.number, step)
            except Untaken as untaken:
                self._deliveries.take_back(step, untaken)
                self._wake.set()
            else:
                self._finish(step)
                self.committing_s = None
                return
        self.committing_s = None
        self.in_flight.end_step()

    def _finish(self, step: Step) -> None:
        """Take note of a committed step."""
        if self._services.traces is not None:
            self._services.traces.committed(self.number, step)
        self.in_flight.end(step.fired)
        if step.again or self.in_flight.tries:
            self.in_flight.tries.change(step.again, set(step.changes.removed))
        self.steps_read += bool(step.changes.positions)
        lowest = min(step.changes.added, default=None)
        if lowest is not None and keys.due_of(lowest) <= step.now_ms + SOON_MS:
            self._pacing.hurry(asyncio.get_running_loop().time(), _SOON_FOR_S)
        self.in_flight.end_step(lowest)
        self._firing.notify(self)
