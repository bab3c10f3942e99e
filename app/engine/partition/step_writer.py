"""The single writer of a partition: records and outcomes become steps, which are committed one after the other.

All changes of the partition go through its task, so that steps never overlap. Records and outcomes that come during a
commit are gathered into the next step, so the steps of a busy partition are larger.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from app.base.process.fatal import telling
from app.engine.ingest.policy import Policy
from app.engine.partition.in_flight import InFlight
from app.engine.partition.pacing import SOON_MS, Pacing
from app.engine.partition.services import Services
from app.engine.partition.step_builder import Chunk, StepBuilder
from app.engine.steps.context import PartitionContext
from app.engine.steps.outcomes import Outcome
from app.engine.steps.step import Step
from tables import keys
from tables.entry import VERSION

#: After a step of this size (some hundred messages), more is likely to come: the next steps, and looks for records, are
#: hurried for this many seconds.
_MUCH_BYTES, _MUCH_FOR_S = 64 * 1024, 0.1
#: After a step with a message that is due soon, steps are hurried for this long: more such messages may come.
_SOON_FOR_S = 1.0


class Reminder:
    """Reminds its owner, periodically or on request, that a check is due."""

    def __init__(self, every_s: float, call: Callable[[], object]) -> None:
        """Call `call` when `every_s` seconds have passed since the last check; infinity means never."""
        self._every_s, self._call = every_s, call
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._again()

    async def look(self, looking: Awaitable[object]) -> None:
        """Await the check `looking` and restart the period; looked() calls made during the check wait for the next."""
        waiting, self._waiting = self._waiting, []
        self._again()
        await looking
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def looked(self) -> None:
        """Request a check at once, and wait until it is done."""
        looked = self._loop.create_future()
        self._waiting.append(looked)
        self._remind()
        await looked

    def _again(self) -> None:
        self.cancel()
        self.due = False
        if math.isfinite(self._every_s):
            self._timer = self._loop.call_later(self._every_s, self._remind)

    def _remind(self) -> None:
        self.due = True
        self._call()

    def cancel(self) -> None:
        """Stop the periodic reminders; looked() still reminds."""
        if self._timer is not None:
            self._timer.cancel()


class StepHooks(NamedTuple):
    """Callbacks around the steps of a partition.

    `notify` is called after each step. Exactly once, `top_up` fires due rows before each step, and `withdraw` takes
    back all deliveries that wait for a step.
    """

    notify: Callable[[], None]
    top_up: Callable[[], None]
    withdraw: Callable[[], None]


class StepWriter:
    """Gathers records and outcomes of one partition, and commits steps from begin() to close()."""

    def __init__(self, number: int, services: Services, in_flight: InFlight, hooks: StepHooks) -> None:
        """Write the steps of partition `number`; `hooks` are called around each."""
        self._number, self._services, self._in_flight, self._hooks = number, services, in_flight, hooks
        self._clock, self.journal = services.clock, services.journal
        self._pacing = Pacing(exactly_once=services.settings.engine.exactly_once)
        self._inbox, self._outcomes = deque[Chunk](), deque[Outcome]()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        #: How many steps have taken records in.
        self.steps_read = 0
        #: When the current commit began, by the event loop's clock, or None.
        self.committing_s: float | None = None

    def begin(self, context: PartitionContext, policy: Policy, fatal: Callable[[BaseException], None]) -> None:
        """Begin to write steps to a restored store; `fatal` gets errors that must end the process."""
        self._outcomes.clear()
        topics, keeps = self._services.topics, self._services.traces is not None
        self._context = context
        self._builder = StepBuilder(context, policy, topics, self._inbox, self._outcomes, keeps=keeps)
        self._closing = False
        self._alone = Reminder(self._services.check_alone_s, self._wake.set)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(telling(fatal))

    async def close(self, limit_s: float) -> bool:
        """Finish sends in flight for at most `limit_s` seconds; return whether any was abandoned."""
        if self._task is None:
            return False
        self.drop_inbox()
        self._closing = True
        self._wake.set()
        _, late = await asyncio.wait([self._task], timeout=limit_s)
        for task in late:
            task.cancel()
            await asyncio.wait([task])
        self.drop_inbox()  # a step that was being built may have put records back
        self._task = None
        return bool(late)

    @property
    def running(self) -> bool:
        """Whether the writer has begun and not ended."""
        return self._task is not None

    @property
    def working(self) -> bool:
        """Whether records are taken."""
        return self._task is not None and not self._closing

    @property
    def idle(self) -> bool:
        """Whether all records that have come are in the table."""
        return not self._inbox

    # records and outcomes --------------------------------------------------------------------------------------------
    def wake(self) -> None:
        """Check again whether there is anything for a step."""
        self._wake.set()

    def take(self, chunk: Chunk) -> None:
        """Take records, and the future that is done when they are in the table."""
        self._inbox.append(chunk)
        self._wake.set()

    def drop_inbox(self) -> None:
        """Drop the records in the inbox; they are read again later."""
        for _, done in self._inbox:
            done.cancel()
        self._inbox.clear()

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Take outcomes of sends."""
        self._outcomes.extend(outcomes)
        self._wake.set()

    def is_hurried(self, now: float) -> bool:
        """Return whether there is a hurry at `now`, a time of the event loop."""
        return self._pacing.is_hurried(now)

    async def see_alone(self) -> None:
        """Wait for a check that this worker is the changelog's only writer; if it is not, the process ends."""
        await self._alone.looked()

    async def follow_zones(self, limit_s: float, before: bytes | None) -> None:
        """Plan series by the zone rules of this worker: in rows from the key `before` on, or with None, in the others.

        It waits at most `limit_s` seconds; the rest is planned in later steps.
        """
        done = self._builder.replan(before)
        if done is not None:
            self._wake.set()
            await asyncio.wait([done], timeout=limit_s)

    # steps -----------------------------------------------------------------------------------------------------------
    async def _run(self) -> None:
        loop, alone = asyncio.get_running_loop(), self._alone  # a life that ends late must not end the next one's
        try:
            while not (self._closing and not self._outcomes and not self._in_flight.claims and not self._builder.owes):
                await self._wake.wait()
                if not self._closing:
                    await asyncio.sleep(self._until_step(loop.time()))
                self._wake.clear()
                self._pacing.begin(loop.time())
                await self._do_step()
                if alone.due:
                    await alone.look(self.journal.check_alone(self._number, self._clock.now_ms()))
        finally:
            alone.cancel()

    def _until_step(self, now: float) -> float:
        return self._pacing.until_step(now, full=self._in_flight.full, records=bool(self._inbox))

    async def _do_step(self) -> None:
        """Build and commit one step. No reference to the step is kept, because it may have a megabyte."""
        step = self._new_step()
        self._in_flight.begin_step(step)
        done = await self._build(step)
        left = bool(self._inbox or self._outcomes)
        await self._commit(step)
        if left or step.size >= _MUCH_BYTES:
            self._pacing.hurry(asyncio.get_running_loop().time(), _MUCH_FOR_S)
        for future in done:
            if not future.done():
                future.set_result(None)

    async def _build(self, step: Step) -> "list[asyncio.Future[None]]":
        """Fill a step with the records and outcomes that have come; return the futures of its records."""
        full = bool(self._in_flight.claims) and self._in_flight.full
        return await self._builder.build(step, self._wake.set, full=full)

    def _new_step(self) -> Step:
        now_ms = self._clock.now_ms()  # before offset_ms, because now_ms() notices jumps of the clock
        chosen = self._services.row_version
        version = VERSION if chosen is None else chosen(self._context.store.row_version)
        return Step(now_ms, now_ms - self._clock.offset_ms, version)

    async def _commit(self, step: Step) -> None:
        """Commit a step, if there is anything in it."""
        if not step:
            self._in_flight.end_step()
            return
        self.committing_s = asyncio.get_running_loop().time()
        await self.journal.commit(self._number, step)
        self._finish(step)
        self.committing_s = None

    def _finish(self, step: Step) -> None:
        """Update the rows in flight, the pace and the counters after a committed step."""
        if self._services.traces is not None:
            self._services.traces.committed(self._number, step)
        self._in_flight.end(step.fired)
        if step.again or self._in_flight.tries:
            self._in_flight.tries.change(step.again, set(step.changes.removed))
        self.steps_read += bool(step.changes.positions)
        lowest = min(step.changes.added, default=None)
        if lowest is not None and keys.due_of(lowest) <= step.now_ms + SOON_MS:
            self._pacing.hurry(asyncio.get_running_loop().time(), _SOON_FOR_S)
        self._in_flight.end_step(lowest)
        self._hooks.notify()
