"""One partition: records go straight to Kafka while it accepts them, and otherwise in order through the spool.

One batch at a time is in flight, so that no failure can change the order. Records that Kafka has not acknowledged
within the patience are written to the spool, and so accepted, while their batch is still being tried: if it is
acknowledged after all, they are removed from the spool. New records then join the spool behind them, until it is empty.
Only a crash between an acknowledgement and the removal makes Kafka get a record twice; both copies have the same ID,
due time and `delay-asked-at`, and a `delay-dedupe`.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from app.base.process.fatal import telling
from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.delivery import bury, deliver
from app.gateway.spool.errors import DeadLetterRefused, SpoolFull, SpoolUnusable
from app.gateway.spool.spool import Spool
from app.gateway.spool.spool_store import Place, SpooledRecord
from app.gateway.spool.submission import Outcome, Refused, SpoolTally, Taken, WaitingRecord
from app.kafka.errors import NotAuthorised
from punctual.contract.request import Reason

log = logging.getLogger(__name__)

_LINGER_S: Final = 0.001
_MOST: Final = 1_000
_AGAIN_S: Final = 2.0
#: Errors that keep records in the spool although Kafka is up: people have to fix them.
_STUCK: Final = NotAuthorised, DeadLetterRefused, SpoolUnusable
_SPOOLED: Final = Taken(spooled=True)


@dataclass(frozen=True, slots=True)
class LaneParts:
    """The parts that all lanes of a gateway share."""

    connection: KafkaConnection
    spool: Spool
    dead_letters: str
    tally: SpoolTally
    patience_s: Callable[[], float]
    crash: Callable[[BaseException], object]


class Lane:
    """Sends the records of one partition."""

    def __init__(self, place: Place, parts: LaneParts) -> None:
        self.place = place
        self._about = {"topic": place[0], "partition": place[1]}
        self._parts, self._spool, self._loop = parts, parts.spool, asyncio.get_running_loop()
        self._waiting = deque[WaitingRecord]()
        self._work: asyncio.Task[None] | None = None
        self._closed = False
        #: Whether Kafka has kept a batch waiting for longer than the patience.
        self.overdue = False
        #: The error that keeps records in the spool, "" without one.
        self.trouble = ""
        if self._spool.holds(place):
            self._begin(0)

    @property
    def spools(self) -> bool:
        """Whether new records join the spool."""
        return self.overdue or self._spool.holds(self.place) > 0

    def put(self, records: list[WaitingRecord]) -> None:
        """Add records at the end of the lane; their batches get the outcomes."""
        if self.spools:
            self._to_spool(records)
            return
        self._waiting.extend(records)
        self._begin(_LINGER_S)

    async def close(self) -> None:
        """Begin no more batches; a batch in flight is abandoned, spooled records stay."""
        self._closed = True
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})

    def _begin(self, linger_s: float) -> None:
        if self._work is None and not self._closed:
            self._work = self._loop.create_task(self._run(linger_s))
            self._work.add_done_callback(telling(self._parts.crash))

    async def _run(self, linger_s: float) -> None:
        await asyncio.sleep(linger_s)  # one batch for all records that arrive at the same time
        while True:
            if self._spool.holds(self.place):
                await self._drain()
            elif self._waiting:
                await self._send()
            else:
                break
        self._work = None

    # straight --------------------------------------------------------------------------------------------------------
    async def _send(self) -> None:
        """Send waiting records, and settle them within the patience."""
        flying = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
        submissions = [one.submission for one in flying]
        acked = self._loop.create_task(deliver(self._parts.connection, self.place, submissions))
        try:
            left_s = flying[0].since_s + self._parts.patience_s() - self._loop.time()
            await asyncio.wait({acked}, timeout=max(0.0, left_s))
            if acked.done():
                self._hear(flying, acked)
                return
            self.overdue = True
            await self._outlast(flying, acked)
            self.overdue = False
        finally:
            acked.cancel()

    def _hear(self, flying: list[WaitingRecord], acked: "asyncio.Task[list[Outcome]]") -> None:
        try:
            outcomes = acked.result()
        except NotAuthorised as error:
            outcomes = [Refused(Reason.NOT_ALLOWED.value, str(error))] * len(flying)
        self._parts.tally.produced(self._loop.time() - flying[0].since_s, outcomes)
        for one, outcome in zip(flying, outcomes, strict=True):
            one.settle(outcome)

    async def _outlast(self, flying: list[WaitingRecord], acked: "asyncio.Task[list[Outcome]]") -> None:
        """Spool the records that Kafka does not acknowledge in time, and still wait for their batch."""
        log.warning("%s-%d accepts no records. They are written to the spool", *self.place, extra=self._about)
        spooling = self._to_spool(flying)
        if self._waiting:  # the records behind them
            behind, self._waiting = list(self._waiting), deque()
            self._to_spool(behind)
        records = await spooling
        await asyncio.wait({acked})
        if acked.exception() is None and records:
            with contextlib.suppress(*_STUCK):  # the rest stays in the spool, and is tried again from there
                await self._settle(records, acked.result())

    # through the spool -----------------------------------------------------------------------------------------------
    def _to_spool(self, waiting: list[WaitingRecord]) -> "asyncio.Task[list[SpooledRecord]]":
        """Write records to the spool in the order of the calls; the task returns them, or [] if the spool is full."""
        records, written = list[SpooledRecord](), self._loop.create_future()
        try:
            records, written = self._spool.add(self.place, [one.submission for one in waiting])
        except SpoolFull as error:
            written.set_exception(error)
        return self._loop.create_task(self._spooled(waiting, records, written))

    async def _spooled(
        self, waiting: list[WaitingRecord], records: list[SpooledRecord], written: asyncio.Future[None]
    ) -> list[SpooledRecord]:
        try:
            await written
        except SpoolFull as error:
            self._parts.tally.full += len(waiting)
            for one in waiting:
                one.settle(error)
            return []
        self._parts.tally.spooled += len(records)
        for one in waiting:
            one.settle(_SPOOLED)
        self._begin(0)
        return records

    async def _drain(self) -> None:
        """Send the first spooled records, and wait as long as that takes."""
        try:
            records = await self._spool.read(self.place)
            if not records:
                await asyncio.sleep(_LINGER_S)  # they are being written
                return
            submissions = [one.submission for one in records]
            acked = self._loop.create_task(deliver(self._parts.connection, self.place, submissions))
            try:
                await asyncio.wait({acked}, timeout=self._parts.patience_s())
                self.overdue = not acked.done()
                await self._settle(records, await acked)
            finally:
                acked.cancel()
        except _STUCK as error:
            self.trouble = str(error)
            log.error(  # noqa: TRY400 - the error is expected, and its text suffices
                "%s-%d: the spooled records cannot be sent: %s", *self.place, error, extra=self._about
            )
            await asyncio.sleep(_AGAIN_S)
        else:
            self.overdue, self.trouble = False, ""

    async def _settle(self, records: Sequence[SpooledRecord], outcomes: Sequence[Outcome]) -> None:
        """Remove stored records from the spool, and refused records once they are dead letters."""
        settled = 0
        for number, (one, outcome) in enumerate(zip(records, outcomes, strict=True)):
            if isinstance(outcome, Refused):
                await self._remove(records[settled:number])
                settled = number
                await bury(self._parts.connection, self._parts.dead_letters, self.place, one.submission, outcome)
                self._parts.tally.buried += 1
        await self._remove(records[settled:])

    async def _remove(self, records: Sequence[SpooledRecord]) -> None:
        if records:
            await self._spool.remove(self.place, records)
            self._parts.tally.drained += len(records)
