"""One partition's part of a job that sends dead letters again, from the oldest to the newest at its start."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from app.engine.engine import Engine
from app.kafka.errors import BatchRejected, Recalled, SendError, TooLarge
from app.kafka.metadata.reader import PartitionReader, Stored
from app.kafka.produce.batch import Ack, Batch
from app.serve.access.roles import Asker
from app.serve.actions.body import BadBody
from app.serve.actions.events import EventWatch
from app.serve.actions.job import Job
from app.serve.actions.job_log import JobLog
from app.serve.actions.job_part import BATCH, PATIENCE_S, JobPart
from app.serve.actions.namespace_bounds import NamespaceBounds, OutsideNamespaces
from app.serve.actions.resend import IncompleteDeadLetter, Resend, resend
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.search.search import Search

_LOOK_S: Final = 0.05
_FETCH_BYTES: Final = 256 * 1024
#: So many letters of a partition may be refused, beside which the part goes on.
_MOST_REFUSED: Final = 1_000
_TOO_MANY: Final = (
    f"more than {_MOST_REFUSED:,} dead letters are outside the namespaces of the job's creator. "
    "Stop it, and start a job whose filter excludes them"
)
#: What is wrong with a record, and not with all of its topic's; or with one before it.
_OF_A_RECORD: Final = (TooLarge, BatchRejected, Recalled)


class Sending(NamedTuple):
    """A batch of requests for one partition, and the offsets of the dead letters in it."""

    topic: str
    partition: int
    batch: Batch
    offsets: list[int]


class Settled:
    """The outcomes of the letters of one reading."""

    def __init__(self) -> None:
        """Begin with none."""
        self.sent, self.refused = set[int](), set[int]()
        #: The `topic-partition-offset` at which letters were sent again, each with the partition that is its id's home.
        self.sources: dict[str, int] = {}
        #: The first of those that could not be sent for now, and why.
        self.failed: tuple[int, SendError] | None = None
        #: Where inputs end with what was sent to them.
        self.ends: dict[tuple[str, int], int] = {}

    def fail(self, offset: int, error: SendError) -> None:
        """Note a letter that could not be sent for now."""
        if self.failed is None or offset < self.failed[0]:
            self.failed = offset, error


class Sorted(NamedTuple):
    """Letters that the job is about: those to send again, and offsets of those that are incomplete, or not theirs."""

    requests: dict[int, Resend]
    incomplete: list[int]
    outside: list[int]

    def before(self, end: int) -> "Sorted":
        """Return those before an offset."""
        requests = {offset: again for offset, again in self.requests.items() if offset < end}
        return Sorted(requests, *([one for one in found if one < end] for found in (self.incomplete, self.outside)))


class ResendPart(JobPart):
    """Sends them to the inputs that they came from, and counts their outcomes by their events.

    Each is sent once, but for those under way when the worker is killed. One that its input refuses, too large say, is
    counted as `refused`, and others go on; an input that takes none for now has the part go on later where it was.
    What its giver could not send again by itself, being bound to namespaces, is `refused` too.
    """

    def __init__(self, engine: Engine, search: Search, log: JobLog, job: Job, partition: int) -> None:
        """Go on where the log says, within what the job's giver may."""
        super().__init__(engine, search, log, job, partition)
        self._bounds = NamespaceBounds(engine.settings)
        self._giver = Asker(job.by, "admin", namespaces=tuple(sorted(job.namespaces)) if job.bound else None)

    async def run(self) -> None:
        """Work until the part is over, the job is stopped, or the partition is somebody else's.

        Raises a SendError or KafkaError; what is written down stays, and can be gone on with.
        """
        topic, number = self._engine.settings.topics.dead_letters, self._part.partition
        end = self._job.ends[number].get(topic, 0)
        begin = await PartitionReader(self._engine.cluster, topic, number).begin()
        start = max(begin, self._part.after_offset)
        reader = PartitionReader(self._engine.cluster, topic, number, start, fetch_bytes=_FETCH_BYTES)
        while not self._part.over and self._mine():
            records = [] if await reader.position() >= end else await reader.chunk(BATCH)
            if self._mine():  # the job may have been stopped while they were read
                await self._send([record for record in records if record.offset < end], await reader.position(), end)

    async def _send(self, records: list[Stored], position: int, end: int) -> None:
        """Send letters, write down which were, and wait for their outcomes."""
        found = self._sorted(records)
        allowed = await self._reserve(len(found.requests))
        if allowed < len(found.requests):
            if not self._mine():
                return
            end = list(found.requests)[allowed]
            found = found.before(end)
            self._part = msgspec.structs.replace(self._part, limited=True)
        watch = await self._watch(found.requests.values())
        settled = Settled()
        await self._submit(batches_of(found.requests.items(), self._engine.clock.wall_ms()), found, settled)
        for alone in batches_of(self._again(found, settled), self._engine.clock.wall_ms(), most=1):
            await self._submit([alone], found, settled)
        for offset in found.outside:
            self._pass_over(offset, settled)
        await self._settle(settled, found.incomplete, min(position, end), end)
        if watch is not None and settled.sources:
            outcomes = await watch.outcomes(settled.sources, PATIENCE_S)
            await self._count(outcomes, over=settled.failed is None and position >= end)
        if settled.failed is not None:
            raise settled.failed[1]
        await self._taken_up(settled.ends)

    def _sorted(self, records: list[Stored]) -> Sorted:
        """Return what is to be done with letters."""
        found, part, wanted = Sorted({}, [], []), self._part, self._job.dead_letters
        for record in records:
            one = DeadLetter.of(part.partition, record, most=None)
            if record.offset in part.ahead or wanted is None:
                continue
            if not wanted.fits(self._log.marked(one, besides=self._job.job_id)):
                continue
            try:
                again = resend(self._engine.settings.topics, one, self._engine.clock.wall_ms())
                self._bounds.check_resend(self._giver, again)
                found.requests[record.offset] = again
            except IncompleteDeadLetter:
                found.incomplete.append(record.offset)
            except (OutsideNamespaces, BadBody):
                found.outside.append(record.offset)
        return found

    async def _watch(self, requests: Iterable[Resend]) -> EventWatch | None:
        """Return what hears of letters that are sent from now on; None if there are no letters."""
        settings = self._engine.settings
        homes = {again.partition if again.request.id is not None else None for again in requests}
        if not homes:
            return None
        numbers = range(settings.topics.partitions) if None in homes else [home for home in homes if home is not None]
        return await EventWatch.begin(self._engine.cluster, settings.topics.events_topic, numbers)

    async def _settle(self, settled: Settled, incomplete: list[int], position: int, end: int) -> None:
        """Write down which letters were sent."""
        part = self._part
        after = position if settled.failed is None else settled.failed[0]
        outcomes = Counter(part.outcomes)
        outcomes["refused"] += len(settled.refused)
        outcomes["incomplete"] += sum(offset < after for offset in incomplete)
        done = part.ahead | settled.sent | settled.refused
        self._part = msgspec.structs.replace(
            part,
            ahead=frozenset(offset for offset in done if offset >= after),
            refused=part.refused | settled.refused,
        )
        if settled.failed is None or settled.sent or settled.refused or str(after) != part.after:
            untold = part.untold + len(settled.sent)
            over = after >= end and not settled.sent  # what came of them is counted first
            await self._note(str(after), part.sent + len(settled.sent), +outcomes, untold, over=over)

    async def _count(self, outcomes: Counter[str], *, over: bool) -> None:
        """Write down the outcomes of letters that were sent."""
        part = self._part
        await self._note(
            part.after, part.sent, Counter(part.outcomes) + outcomes, part.untold - outcomes.total(), over=over
        )

    def _again(self, found: Sorted, settled: Settled) -> list[tuple[int, Resend]]:
        """Return the letters to send one by one, for one of their batch may be what is wrong with it."""
        if settled.failed is None or not isinstance(settled.failed[1], _OF_A_RECORD):
            return []
        settled.failed = None
        return [one for one in found.requests.items() if one[0] not in settled.sent | settled.refused]

    async def _submit(self, sendings: list[Sending], found: Sorted, settled: Settled) -> None:
        """Send batches, and note what has come of each."""
        submit = self._engine.sender.submit
        sent = [submit(one.topic, one.partition, one.batch) for one in sendings]
        for one, answer in zip(sendings, await asyncio.gather(*sent, return_exceptions=True), strict=True):
            if isinstance(answer, Ack):
                settled.sent.update(one.offsets)
                for offset, letter in enumerate(one.offsets, answer.offset):
                    home = found.requests[letter].home(self._engine.settings.topics, offset)
                    settled.sources[f"{one.topic}-{one.partition}-{offset}"] = home
                settled.ends[one.topic, one.partition] = answer.offset + one.batch.count
            elif not isinstance(answer, SendError):
                raise answer
            elif len(one.offsets) == 1 and self._refuses(answer, settled):
                settled.refused.update(one.offsets)
            else:
                settled.fail(one.offsets[0], answer)

    def _pass_over(self, offset: int, settled: Settled) -> None:
        """Refuse a letter that is outside of the giver's namespaces."""
        if self._room(settled):
            settled.refused.add(offset)
        else:
            settled.fail(offset, SendError(_TOO_MANY))

    def _room(self, settled: Settled) -> bool:
        return len(self._part.refused) + len(settled.refused) < _MOST_REFUSED

    def _refuses(self, error: SendError, settled: Settled) -> bool:
        """Return whether a letter by itself is refused for good, and may be passed over."""
        return self._room(settled) and isinstance(error, _OF_A_RECORD) and not isinstance(error, Recalled)

    async def _taken_up(self, ends: dict[tuple[str, int], int]) -> None:
        """Wait until what was sent to partitions that are served here is in the table: others come between."""
        for (topic, number), end in ends.items():
            while self._mine():
                position = self._engine.position(topic, number)
                if position is None or position >= end:
                    break
                await asyncio.sleep(_LOOK_S)


def batches_of(requests: Iterable[tuple[int, Resend]], now_ms: int, most: int = BATCH) -> list[Sending]:
    """Return requests in batches by partition, each with at most so many, in the order in which they come."""
    sendings, last = list[Sending](), dict[tuple[str, int], Sending]()
    for offset, (topic, partition, request, _) in requests:
        sending, headers = last.get((topic, partition)), list(request.headers)
        if (
            sending is None
            or len(sending.offsets) == most
            or not sending.batch.append(now_ms, request.key, request.value, headers)
        ):
            sending = last[topic, partition] = Sending(topic, partition, Batch(), [])
            sending.batch.append(now_ms, request.key, request.value, headers)
            sendings.append(sending)
        sending.offsets.append(offset)
    return sendings
