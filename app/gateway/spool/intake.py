"""Takes records: to Kafka, or to the spool while Kafka is down. Each partition has a lane of its own."""

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
#: shorter than clients wait for an answer.
PATIENCE_S: Final = 2.0
#: How long a partition gets while another keeps records waiting: Kafka is likely to be down as a whole.
_SHORT_S: Final = 0.25
_CLOSED_RETRY_S: Final = 1
#: How long a disk may take for what is spooled at the end.
_DISK_S: Final = 5.0


class Intake:
    """What makes records safe; of one event loop."""

    def __init__(
        self,
        topics: TopicSettings,
        connection: KafkaConnection,
        spool: Spool,
        tally: SpoolTally,
        crash: Callable[[BaseException], object],
    ) -> None:
        """Go on with what the spool has; `crash` hears of what nobody foresaw."""
        self._topics, self._spool, self.tally = topics, spool, tally
        self._inputs = frozenset(topics.inputs)
        poison = Poison(topics, connection, tally)
        self._parts = LaneParts(connection, spool, poison, tally, self._patience_s, crash)
        self._lanes = {place: Lane(place, self._parts) for place in spool.places()}
        self._under_way = set[asyncio.Future[list[Outcome | None]]]()
        self._closed = False

    async def submit(self, batch: Sequence[Submission]) -> list[Outcome]:
        """Return what has become of each record, once all are safe or refused for good.

        Records of one partition keep their order, and that of the calls. Raises SpoolFull: nothing is promised then,
        though some may have been taken; those come again with the same ids.
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
        if len(shares) > 1:  # all, before any that fails is told of
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

    # how it stands ---------------------------------------------------------------------------------------------------
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
        """How many records the spool has."""
        return self._spool.count

    @property
    def spool_bytes(self) -> int:
        """Their bytes."""
        return self._spool.bytes

    @property
    def spool_age_s(self) -> float:
        """For how long the oldest of them has waited, 0 if there is none."""
        return self._spool.age_s

    def not_ready(self) -> str | None:
        """Return why nothing can be taken now, or None if something can."""
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
        """Return why something that is spooled cannot be sent though Kafka is there, or None."""
        return next((lane.trouble for lane in self._lanes.values() if lane.trouble), None)

    async def close(self) -> None:
        """Take nothing any more, finish what is under way, which the patience bounds, and leave the spool as it is."""
        self._closed = True
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=PATIENCE_S + _DISK_S)
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        await self._spool.close()
