"""What has come becomes one step: outcomes and records within bounds, and what is to be forgotten with it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from app.engine.ingest.ingest import Ingest
from app.engine.ingest.policy import Policy
from app.engine.partition.replanning import Replanning
from app.engine.steps.context import PartitionContext
from app.engine.steps.downgrade import Downgrade
from app.engine.steps.outcome_handler import OutcomeHandler
from app.engine.steps.outcomes import Outcome
from app.engine.steps.step import STEP_BYTES, Step
from app.kafka import fast_path
from app.kafka.fast_path.interface import ONE_BY_ONE, next_length
from punctual.contract.record import Record
from punctual.contract.request import Refusal
from tables import Changes

#: Records decoded in one go, about 2 ms: deliveries that fall due meanwhile wait that long.
_SLICE = 200
#: A slice ends earlier once it has taken this long: some records cost a hundred times as much as others. The time is
#: read after every few records, and after each large one.
_SLICE_S, _FEW, _LARGE = 0.004, 4, 64 * 1024
#: Requests that the fast path is offered in one go.
_MANY = fast_path.chosen.REQUESTS_PER_CALL
#: While messages are being delivered, slices and steps are so many times shorter.
_SHORTER = 4
#: While more is due than there is room for, a step has so many times the bytes of its outcomes at most, which is about
#: as many records, or a few records: removals, which make room, do not wait for many.
_TIMES, _LEAST_BYTES = 3, 32 * 1024
_STEP_OUTCOMES = 20_000
#: A step takes no more outcomes once those that it has have cost this long, whatever became of them.
_OUTCOMES_S = 0.01
#: So much is forgotten with a step, of a kind; and so much of it, whatever the ids: it has its place in the batch.
_EXPIRE, _EXPIRE_BYTES, _TOMBSTONE_BYTES = 1_000, 128 * 1024, 16

Chunk = tuple[Sequence[Record], "asyncio.Future[None]"]


class TopicPartitions(Protocol):
    """What is known of destination topics."""

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, 0 if it is not there."""
        ...

    async def learn(self, topics: Iterable[str]) -> None:
        """Ask the cluster about topics that are not known."""
        ...


class _Slice:
    """Goes through records until their time is over."""

    def __init__(self, time: Callable[[], float], seconds: float) -> None:
        self._time, self._seconds = time, seconds
        #: How many records it has gone through.
        self.taken = 0

    def __call__(self, records: Sequence[Record]) -> Iterator[Record]:
        until = self._time() + self._seconds
        for self.taken, record in enumerate(records, 1):
            yield record
            if (not self.taken % _FEW or len(record.value or b"") > _LARGE) and self._time() >= until:
                break


class StepBuilder:
    """Builds the steps of a partition, from one start to the next, of its inbox and its outcomes."""

    def __init__(
        self,
        context: PartitionContext,
        policy: Policy,
        topics: TopicPartitions,
        inbox: deque[Chunk],
        outcomes: deque[Outcome],
        *,
        keeps: bool = False,
    ) -> None:
        """Take from `inbox` and `outcomes`; `topics` knows destination topics. A step `keeps` what it has read."""
        self._keeps = keeps
        self._context, self._policy, self._topics = context, policy, topics
        self._inbox, self._outcomes = inbox, outcomes
        self._forwards = context.settings.topics.forwards
        self._ingest, self._apply = Ingest(context, policy), OutcomeHandler(context).apply
        self._most = STEP_BYTES
        #: Among how many records it is looked for plain ones, no more than _MANY.
        self._many = _MANY
        self._replanning = Replanning(context)
        #: What writes rows again in the background, some with each step, until it is over.
        self._rewrites = list[Downgrade | Replanning]()
        if context.settings.engine.row_version:
            busy = context.claims.__contains__
            self._rewrites.append(Downgrade(context.number, context.settings.engine.row_version, context.store, busy))

    @property
    def apply(self) -> Callable[[Step, Outcome], None]:
        """What adds to a step what an outcome does."""
        return self._apply

    @property
    def owes(self) -> bool:
        """Whether the cold tier is to be told of something by the next step."""
        return bool(self._context.cold.owed)

    def replan(self, bound: bytes | None) -> "asyncio.Future[None] | None":
        """Have the next steps plan series by the zone rules of this worker: those from `bound` on, or then the others.

        The future is done when they are planned; None if there is nothing to do.
        """
        planned = self._replanning.finish() if bound is None else self._replanning.begin(bound)
        if planned is not None and self._replanning not in self._rewrites:
            self._rewrites.append(self._replanning)
        return planned

    async def build(self, step: Step, again: Callable[[], None], *, full: bool = False) -> "list[asyncio.Future[None]]":
        """Put what has come into one step, within bounds; return the futures of the records that are in it.

        Calls `again` if there is more for another step. The bounds are closer while the partition is `full`.
        """
        if self.owes:
            self._context.cold.settle_debts(step)
        time = asyncio.get_running_loop().time
        until = time() + _OUTCOMES_S
        for _ in range(min(len(self._outcomes), _STEP_OUTCOMES)):
            self._apply(step, self._outcomes.popleft())
            if step.size >= STEP_BYTES or time() >= until:
                break
        done, self._most = [], max(_LEAST_BYTES, _TIMES * step.size) if full else STEP_BYTES
        while self._inbox and step.size < self._limit:
            records, future = self._inbox.popleft()
            taken = await self._ingest_records(step, records)
            if self._keeps:
                step.read = [*step.read, records[:taken]]
            if taken < len(records):
                self._inbox.appendleft((records[taken:], future))
                break
            done.append(future)
        more = bool(self._inbox or self._outcomes or self.owes)
        if step.size < 2 * STEP_BYTES:  # no large row is in it: there is room for what expires
            more |= self._expire(step)
            more |= self._rewrite(step)
        if more:
            again()
        return done

    async def _ingest_records(self, step: Step, records: Sequence[Record]) -> int:
        """Ingest records in slices that leave time for deliveries; return how many fit into the step."""
        begin, forwarded = 0, records[0].topic == self._forwards
        time = asyncio.get_running_loop().time
        while begin < len(records):
            limit, many = self._limit, min(begin + min(self._many, _MANY // self._shorter), len(records))
            plain = self._ingest.take_plain(step, records, begin, many, self._topics.partitions, limit)
            self._many = next_length(plain)
            if plain:
                await asyncio.sleep(0)
                begin += plain
                if step.size >= limit or begin == len(records):
                    return begin
                if begin == many:
                    continue
            end = min(begin + (ONE_BY_ONE if plain else _SLICE // self._shorter), len(records))
            each = _Slice(time, _SLICE_S / self._shorter)
            found = self._ingest.read(step, records[begin:end], each)
            end = begin + each.taken
            # Few are different, so that this is looked at once for many.
            wanted = {
                (request.cluster, request.to, request.partition or 0)
                for _, request in found
                if not isinstance(request, Refusal) and request.to
            }
            # A topic may have got more partitions since it was last seen.
            unknown = {topic for cluster, topic, n in wanted if cluster is None and self._topics.partitions(topic) <= n}
            if unknown:
                await self._topics.learn(unknown)
            if not all(self._policy.is_known(cluster, topic) for cluster, topic, _ in wanted):
                found = await self._policy.admitted(found, forwarded=forwarded)
            taken = self._ingest.apply(step, found, self._topics.partitions, limit)
            await asyncio.sleep(0)
            begin = end - (len(found) - taken)
            if taken < len(found) or step.size >= limit:  # beside a large row there is no room for another
                return begin
        return begin

    @property
    def _limit(self) -> int:
        """How many bytes the step may have by now."""
        return min(self._most, STEP_BYTES // self._shorter)

    @property
    def _shorter(self) -> int:
        """By how much slices and steps are shorter now: what is on its way waits for those of all partitions."""
        return _SHORTER if self._context.claims else 1

    def _rewrite(self, step: Step) -> bool:
        """Write rows again that have to be, as far as there is room; return whether there may be more."""
        more = False
        for rewrite in [*self._rewrites]:
            if rewrite.over:
                self._rewrites.remove(rewrite)
            elif step.size < STEP_BYTES:
                rewrite.put_into(step)
                more = True
        return more

    def _expire(self, step: Step) -> bool:
        """Forget what has been remembered for long enough, and more of it than a step adds; return whether more is."""
        store, changes, now_ms, more = self._context.store, step.changes, step.broker_ms, False
        if store.commands.count:
            limit = max(_EXPIRE, 2 * len(changes.commands))
            ended = store.commands.expired(now_ms, limit) + self._context.memory.spent(limit)
            more = _forget(changes, changes.commands, ended, limit)
        for marks, kind in ((changes.delivered, store.delivered), (changes.cold_marks, store.cold_marks)):
            if kind.count:
                limit = max(_EXPIRE, 2 * len(marks))
                more |= _forget(changes, marks, kind.expired(now_ms, limit), limit)
        return more


def _forget(changes: Changes, marks: dict[str, Any], expired: Iterable[str], limit: int) -> bool:
    """Add to a step that ids are forgotten, as far as its bounds allow; return whether there may be more."""
    most = changes.size + _EXPIRE_BYTES
    for count, id_ in enumerate(expired, 1):
        marks.setdefault(id_, None)
        changes.size += len(id_.encode()) + _TOMBSTONE_BYTES
        if changes.size >= most or count == limit:
            return True
    return False
