"""One partition at work: its states from one assignment to the next, and its records and outcomes."""

import asyncio
import enum
import itertools
import logging
import math
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

#: Lives are numbered over all partitions of a process: a partition that comes back is a new object.
_LIVES = itertools.count(1)


class State(enum.StrEnum):
    """The state of a partition, from its assignment on."""

    RESTORING = "restoring"
    CATCHING_UP = "catching up"
    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"


class Firing(Protocol):
    """The due loop as a partition uses it."""

    def notify(self, partition: "Partition") -> None:
        """Look again: the partition may have rows to fire."""

    def abandon(self, partition: "Partition") -> None:
        """Send no more rows of a partition that has stopped work."""

    def top_up(self, partition: "Partition") -> None:
        """Fire the due rows now, so that they join the step that is about to be committed."""


class Partition:
    """One owned partition: its store, its rows in flight, and the writer task."""

    def __init__(
        self,
        number: int,
        services: Services,
        firing: Firing,
        lost_inputs: "Callable[[Partition], None]" = lambda _: None,
    ) -> None:
        """Begin without a store; `firing` sends due rows, `lost_inputs` makes the partition's inputs be read again."""
        self.number, self._services, self._firing, self._lost_inputs = number, services, firing, lost_inputs
        self._settings, self._clock = services.settings, services.clock
        self._policy = Policy(services.settings, services.admission, services.quotas)
        self._policy.absent = self._reject_absent
        self._state, self._reason = State.RESTORING, ""
        self.in_flight = InFlight()
        hooks = StepHooks(
            lambda: firing.notify(self), lambda: firing.top_up(self), lambda: self.withdraw(lambda _: True)
        )
        #: Deliveries that wait for a step (exactly once only).
        self.deliveries = StepDeliveries()
        if services.settings.engine.exactly_once:
            self.writer: StepWriter = TransactionalStepWriter(number, services, self.in_flight, hooks, self.deliveries)
        else:
            self.writer = StepWriter(number, services, self.in_flight, hooks)
        #: The number of this life, from one start to the next.
        self.life = 0
        #: The event loop's time for which all records known by then have been read, as of the last go_live().
        self.read_s = math.inf
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
        """The remembered commands for ids without a pending message."""
        return self._context.memory

    # states ----------------------------------------------------------------------------------------------------------
    @property
    def state(self) -> State:
        """The state, from restoring to stopped."""
        return self._state

    @property
    def reason(self) -> str:
        """Why the partition is stopped, for people to read."""
        return self._reason

    def restore(self) -> None:
        """Note that the store is being restored."""
        self._state, self._reason = State.RESTORING, ""

    def start(self, store: PartitionStore, fatal: Callable[[BaseException], None]) -> None:
        """Begin to work on a restored store, and to catch up; `fatal` gets errors that must end the process."""
        self._store = store
        self.in_flight.clear()
        self.deliveries.clear()
        self._context = PartitionContext.of(self.number, self._settings, self._services.limits, store, self.claims)
        self.life = next(_LIVES)
        #: The next offset of each input; records before it are not accepted.
        self._next = {topic: position.offset for topic, position in store.positions.items()}
        self.catch_up()
        self.writer.begin(self._context, self._policy, fatal)

    def catch_up(self) -> None:
        """Fire no rows until go_live(): the records in the inputs are read first."""
        self._state = State.CATCHING_UP

    def go_live(self, read_s: float = math.inf) -> None:
        """Fire due rows from now on. All records that were known at `read_s` (event loop's time) have been read."""
        self._state, self.read_s = State.LIVE, read_s

    def expect(self, rows: Collection[bytes]) -> None:
        """Treat rows that the last owner may have sent as being sent, so that commands on them wait until settle().

        A command that moved such a message to another row would make it be sent again.
        """
        self.in_flight.claim_unknown(rows, self.store.entry)

    def settle(self, arrived: Iterable[ArrivedRow]) -> None:
        """Mark the expected rows that have `arrived` as delivered, and the others as unsent."""
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
        """Plan series by the zone rules of this worker, for at most `limit_s` seconds; later steps do the rest.

        The first call plans series that cannot have been sent before this life. A call with `overdue` plans the others,
        after settle().
        """
        before = None if overdue else keys.due_bound(self._clock.wall_ms() + 2 * FAST_MS)
        await self.writer.follow_zones(limit_s, before)

    def lose_inputs(self) -> None:
        """Have the inputs read before more rows are fired, because they have given no sign of life for a while.

        Rows that were chosen but not yet sent are chosen again after that.
        """
        self._firing.abandon(self)
        self.withdraw(lambda _: True)
        self._lost_inputs(self)

    async def pause(self, limit_s: float) -> None:
        """Stop firing, take no more records, and finish sends in flight for at most `limit_s` seconds."""
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

    # records and outcomes --------------------------------------------------------------------------------------------
    def offer(self, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Take records of one input topic, in order; the future is done when they are in the table.

        Raises InputGone if their offsets go back, as a consumer's do when the log ends before its position.
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
        """Reject a message whose topic was expected but is absent, if the same message is still pending."""
        row = self.store.find(id_) if self.working and self._store is not None else None
        entry = None if row is None or self.in_flight.busy(row) else self.store.entry(row)
        if row is not None and entry is not None and (entry.source, entry.to) == (source, to):
            self.in_flight.claim(row, entry)
            self.tell(Rejected(row, Reason.UNKNOWN_TOPIC, no_topic(to)))

    def tell(self, outcome: Outcome) -> None:
        """Take the outcome of a send; an outcome from before the last start counts if its row is being sent again."""
        answered = self.in_flight.answered(outcome)
        if answered:
            self.writer.tell(answered)

    def enqueue(self, delivery: Delivery, *, first: bool = False) -> None:
        """Add a delivery to be part of a step (exactly once); with `first`, before all that wait."""
        self.deliveries.add(delivery, first=first)
        self.writer.wake()

    def waiting(self, route: Route) -> Delivery | None:
        """Return the last waiting delivery for a route, which takes more rows, or None."""
        return self.deliveries.open(route)

    def passed(self, point: str) -> None:
        """Mark a named point in the delivery of a row; fault tests end the process here."""
        self.writer.journal.reached(point, None)

    def release(self, rows: Iterable[bytes], route: Route) -> None:
        """Take back rows that were not sent after all, because their `route` is blocked."""
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
        """Take back the deliveries that wait for a step (exactly once) on routes that are `held_back`."""
        for delivery in self.deliveries.withdraw(held_back):
            self.release(delivery.runs[0][1], delivery.route)

    def skip_settled(self) -> None:
        """Let the store begin its scans at the cursor, if no row before it is left."""
        if self.in_flight.quiet:
            self.store.begin_at(self.in_flight.cursor)


class FetchedPositions(Protocol):
    """The positions of the consumer."""

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset up to which records have been fetched and ingested, or None if not known."""


def has_ingested(partition: Partition, fetched: FetchedPositions, topic: str, end: int) -> bool:
    """Return whether all records before offset `end` of a topic's partition are in the table."""
    position = partition.store.positions.get(topic)
    if not end or (position is not None and position.offset >= end):
        return True
    reached = fetched.position(topic, partition.number)  # only control records are beyond the last record
    return reached is not None and reached >= end and partition.idle
