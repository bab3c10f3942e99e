"""Accepts records: to Kafka, or to the spool while Kafka is down. Each partition has its own lane."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.errors import SpoolFull
from app.gateway.spool.lane import Lane, LaneParts
from app.gateway.spool.spool import Spool
from app.gateway.spool.spool_store import Place
from app.gateway.spool.submission import Outcome, SpoolTally, WaitingRecord
from app.serve.messages.acceptance import Submission
from app.settings.topics import TopicSettings

#: How long Kafka may take for a record before it is spooled: longer than the election of a leader usually takes,
#: shorter than clients wait for a response.
PATIENCE_S: Final = 2.0
#: The same while another partition keeps records waiting, because Kafka is then likely to be down as a whole.
_SHORT_S: Final = 0.25
#: How long the disk may take for the last spooled records when the gateway stops.
_DISK_S: Final = 5.0


class Intake:
    """Makes records safe; it belongs to one event loop."""

    def __init__(
        self,
        topics: TopicSettings,
        connection: KafkaConnection,
        spool: Spool,
        crash: Callable[[BaseException], object],
    ) -> None:
        """Continue with the spooled records; `crash` is called with unexpected errors."""
        self.spool, self.tally = spool, SpoolTally()
        self._parts = LaneParts(connection, spool, topics.dead_letters, self.tally, self._patience_s, crash)
        self._lanes = {place: Lane(place, self._parts) for place in spool.places()}
        self._under_way = set[asyncio.Future[None]]()
        self._closed = False

    async def submit(self, batch: Sequence[Submission]) -> list[Outcome]:
        """Return the outcome of each record, once all are safe or refused for good.

        Records of one partition keep their order, and the order of the calls. Raises SpoolFull: then no outcome is
        returned although some records may be safe; the sender repeats them with the same IDs.
        """
        loop, by_place = asyncio.get_running_loop(), defaultdict[Place, list[WaitingRecord]](list)
        outcomes: list[asyncio.Future[Outcome | SpoolFull]] = [loop.create_future() for _ in batch]
        for submission, outcome in zip(batch, outcomes, strict=True):
            assert submission.partition is not None, "acceptance sets the home partition"
            by_place[submission.topic, submission.partition].append(WaitingRecord(submission, loop.time(), outcome))
        if not batch:
            return []
        if self._closed:
            raise SpoolFull("the gateway is being stopped")
        if any(place in self._lanes and self._lanes[place].spools for place in by_place):
            self.spool.check(sum(len(one.value or b"") for one in batch))
            self.spool.check_share(batch)
        self._under_way.add(over := loop.create_future())
        for place, records in by_place.items():
            if place not in self._lanes:
                self._lanes[place] = Lane(place, self._parts)
            self._lanes[place].put(records)
        try:
            results = [await outcome for outcome in outcomes]  # cheaper than gather() for a thousand records
        finally:
            self._under_way.discard(over)
            over.set_result(None)
        if full := [one for one in results if isinstance(one, SpoolFull)]:
            raise full[0]
        return [one for one in results if not isinstance(one, SpoolFull)]

    def _patience_s(self) -> float:
        return min(PATIENCE_S, _SHORT_S) if self.is_down() else PATIENCE_S

    # state -----------------------------------------------------------------------------------------------------------
    def is_down(self) -> bool:
        """Return whether a partition keeps records waiting for longer than the patience."""
        return any(lane.overdue for lane in self._lanes.values())

    @property
    def state(self) -> str:
        """Where records go: `up` to Kafka; `spooling`, some to the spool; `draining`, to the spool, and on to Kafka."""
        if self.is_down():
            return "spooling"
        return "draining" if self.spool.count else "up"

    def not_ready(self) -> str | None:
        """Return why no records can be accepted now, or None."""
        if self._closed:
            return "the gateway is being stopped"
        if not self.is_down():
            return None
        try:
            self.spool.check()
        except SpoolFull as error:
            return f"Kafka is down, and {error}"
        return None

    def trouble(self) -> str | None:
        """Return why spooled records cannot be sent although Kafka is up, or None."""
        return next((lane.trouble for lane in self._lanes.values() if lane.trouble), None)

    async def close(self) -> None:
        """Accept no more records, finish those in progress within the patience, and leave the spool as it is."""
        self._closed = True
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=PATIENCE_S + _DISK_S)
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        await self.spool.close()
