"""Accepts records: to Kafka, or to the spool while Kafka is down. Each partition has its own lane."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from app.gateway.spool.connection import KafkaConnection
from app.gateway.spool.delivery import Poison
from app.gateway.spool.lane import Lane, LaneParts
from app.gateway.spool.spool import Spool
from app.gateway.spool.spool_store import Place
from app.gateway.spool.submission import Outcome, RequestShare, SpoolFull, Submission
from app.gateway.spool.tally import SpoolTally
from app.settings.topics import TopicSettings
from punctual.contract.home import home_partition

#: How long Kafka may take for a record before it is spooled: longer than the election of a leader usually takes,
#: shorter than clients wait for a response.
PATIENCE_S: Final = 2.0
#: The same while another partition keeps records waiting, because Kafka is then likely to be down as a whole.
_SHORT_S: Final = 0.25
_CLOSED_RETRY_S: Final = 1
#: How long the disk may take for the last spooled records when the gateway stops.
_DISK_S: Final = 5.0


class Intake:
    """Makes records safe; it belongs to one event loop."""

    def __init__(
        self,
        topics: TopicSettings,
        connection: KafkaConnection,
        spool: Spool,
        tally: SpoolTally,
        crash: Callable[[BaseException], object],
    ) -> None:
        """Continue with the spooled records; `crash` is called with unexpected errors."""
        self._topics, self._spool, self.tally = topics, spool, tally
        self._inputs = frozenset(topics.inputs)
        poison = Poison(topics, connection, tally)
        self._parts = LaneParts(connection, spool, poison, tally, self._patience_s, crash)
        self._lanes = {place: Lane(place, self._parts) for place in spool.places()}
        self._under_way = set[asyncio.Future[list[Outcome | None]]]()
        self._closed = False

    async def submit(self, batch: Sequence[Submission]) -> list[Outcome]:
        """Return the outcome of each record, once all are safe or refused for good.

        Records of one partition keep their order, and the order of the calls. Raises SpoolFull: then no outcome is
        returned although some records may be safe; the sender repeats them with the same IDs.
        """
        by_place = defaultdict[Place, list[int]](list)
        for index, submission in enumerate(batch):
            by_place[submission.topic, self._partition(submission)].append(index)
        if self._closed:
            raise SpoolFull("the gateway is being stopped", _CLOSED_RETRY_S)
        if any(place in self._lanes and self._lanes[place].spools for place in by_place):
            self._spool.check(sum(len(one.value or b"") for one in batch))
            self._spool.check_share(batch)
        shares = {place: RequestShare([batch[index] for index in indices]) for place, indices in by_place.items()}
        for place, share in shares.items():
            self._under_way.add(share.done)
            share.done.add_done_callback(self._under_way.discard)
            self._lane(place).put(share)
        outcomes: list[Outcome | None] = [None] * len(batch)
        if len(shares) > 1:  # all shares end before the error of one is raised
            await asyncio.wait([share.done for share in shares.values()])
        for place, indices in by_place.items():
            for index, outcome in zip(indices, await shares[place].done, strict=True):
                outcomes[index] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def _partition(self, submission: Submission) -> int:
        if submission.partition is not None:
            return submission.partition
        return home_partition(submission.id, self._inputs, self._topics.partitions)

    def _lane(self, place: Place) -> Lane:
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = Lane(place, self._parts)
        return lane

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
        return "draining" if self._spool.count else "up"

    @property
    def spool_records(self) -> int:
        """The number of records in the spool."""
        return self._spool.count

    @property
    def spool_bytes(self) -> int:
        """The bytes of the spooled records."""
        return self._spool.bytes

    @property
    def spool_age_s(self) -> float:
        """The age of the oldest spooled record, 0 without one."""
        return self._spool.age_s

    def not_ready(self) -> str | None:
        """Return why no records can be accepted now, or None."""
        if self._closed:
            return "the gateway is being stopped"
        if not self.is_down():
            return None
        try:
            self._spool.check()
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
        await self._spool.close()
