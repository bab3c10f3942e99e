"""One partition at work: what it goes through from assignment to the next, and what comes to it meanwhile."""

import asyncio
import enum
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from app.base.clock import FAST_MS
from app.base.errors import InputGone
from app.engine.ingest.policy import Policy, no_topic
from app.engine.partition.claims import ArrivedRow
from app.engine.partition.in_flight import InFlight
from app.engine.partition.services import Services
from app.engine.partition.step_deliveries import StepDeliveries
from app.engine.partition.step_writer import StepHooks, StepWriter
from app.engine.partition.transactional_step_writer import TransactionalStepWriter
from app.engine.steps.command_memory import CommandMemory
from app.engine.steps.context import PartitionContext
from app.engine.steps.delivery import Delivery
from app.engine.steps.outcomes import Delivered, Outcome, Rejected, Unsent
from app.engine.steps.route import Route
from punctual.contract.record import Record
from punctual.contract.request import Reason
from tables import Entry, PartitionStore, keys

log = logging.getLogger(__name__)

#: Lives are told apart over all partitions of a process: one that comes back is another object with its old number.
_LIVES = itertools.count(1)


class State(enum.StrEnum):
    """Where a partition is on its way to work."""

    RESTORING = "restoring"
    CATCHING_UP = "catching up"
    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"


class Firing(Protocol):
    """What looks for due rows."""

    def notify(self, partition: "Partition") -> None:
        """Look again: there may be something to fire."""

    def abandon(self, partition: "Partition") -> None:
        """Send nothing more of a partition that works no more."""

    def top_up(self, partition: "Partition") -> None:
        """Fire what is due by now: it comes along in the step that is about to be committed."""


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
        self._settings, self._clock = services.settings, services.clock
        self._policy = Policy(services.settings, services.admission, services.quotas)
        self._policy.absent = self._reject_absent
        self._state, self._reason = State.RESTORING, ""
        self.in_flight = InFlight()
        hooks = StepHooks(
            lambda: firing.notify(self), lambda: firing.top_up(self), lambda: self.withdraw(lambda _: True)
        )
        #: Exactly once, deliveries that wait for a step.
        self.deliveries = StepDeliveries()
        if services.settings.engine.exactly_once:
            self.writer: StepWriter = TransactionalStepWriter(number, services, self.in_flight, hooks, self.deliveries)
        else:
            self.writer = StepWriter(number, services, self.in_flight, hooks)
        #: The number of this life, from one start to the next.
        self.life = 0
        self._store: PartitionStore | None = None

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
        self.deliveries.clear()
        self._context = PartitionContext.of(self.number, self._settings, self._services.limits, store, self.claims)
        self.life = next(_LIVES)
        #: Where each input goes on: records only ever come from there on.
        self._next = {topic: position.offset for topic, position in store.positions.items()}
        self.catch_up()
        self.writer.begin(self._context, self._policy, fatal)

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
        before = None if overdue else keys.due_bound(self._clock.wall_ms() + 2 * FAST_MS)
        await self.writer.follow_zones(limit_s, before)

    def lose_inputs(self) -> None:
        """Have what waits in the inputs read before anything else is fired: nothing was heard of them for a while.

        What was chosen and is not on its way yet is chosen again after that.
        """
        self._firing.abandon(self)
        self.withdraw(lambda _: True)
        self._lost_inputs(self)

    async def pause(self, limit_s: float) -> None:
        """Stop firing, finish what is in flight as far as `limit_s` allows, take no more records."""
        if self._state is not State.STOPPED or self.writer.running:
            self._state = State.PAUSED
        if await self.writer.close(limit_s):
            sentence = "partition %d: %d sends abandoned in flight"
            log.warning(sentence, self.number, len(self.claims), extra={"partition": self.number})
            self.in_flight.clear()
            self._firing.abandon(self)

    def stop(self, reason: str) -> None:
        """Stop with a reason for people to read."""
        self._state, self._reason = State.STOPPED, reason
        log.error("partition %d is stopped: %s", self.number, reason, extra={"partition": self.number})

    @property
    def working(self) -> bool:
        """Whether records are taken."""
        return self.writer.working

    @property
    def idle(self) -> bool:
        """Whether all records that have come are in the table."""
        return self.writer.idle

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
        self.writer.take((records, done))
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
            self.writer.tell(answered)

    def enqueue(self, delivery: Delivery, *, first: bool = False) -> None:
        """Take deliveries that are to be part of a step (exactly once), `first` before those that wait."""
        self.deliveries.add(delivery, first=first)
        self.writer.wake()

    def waiting(self, route: Route) -> Delivery | None:
        """Return the last deliveries for a route that wait for a step: they take more rows until then."""
        return self.deliveries.open(route)

    def passed(self, point: str) -> None:
        """Pass a named point in the delivery of a row; fault tests end the process here."""
        self.writer.journal.reached(point, None)

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
        for delivery in self.deliveries.withdraw(held_back):
            self.release(delivery.runs[0][1], delivery.route)

    def skip_settled(self) -> None:
        """Let the store begin its scans at the cursor, if nothing before it is left."""
        if self.in_flight.quiet:
            self.store.begin_at(self.in_flight.cursor)


class FetchedPositions(Protocol):
    """What is known of the consumer."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records have been fetched and ingested, or None if not known."""


def has_ingested(partition: Partition, fetched: FetchedPositions, topic: str, end: int) -> bool:
    """Return whether all that stands before `end` in a topic's partition is in the table, or is no record."""
    position = partition.store.positions.get(topic)
    if not end or (position is not None and position.offset >= end):
        return True
    reached = fetched.position(topic, partition.number)  # beyond the last record lie only control records
    return reached is not None and reached >= end and partition.idle
