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
from app.serve.access.caller import Caller
from app.serve.actions.commands import EventWatch
from app.serve.actions.job import Job
from app.serve.actions.job_log import JobLog
from app.serve.actions.job_part import BATCH, PATIENCE_S, JobPart
from app.serve.actions.namespace_bounds import NamespaceBounds, OutsideNamespaces
from app.serve.actions.resend import IncompleteDeadLetter, Sending, homes_of, resend
from app.serve.dead_letters.dead_letter import DeadLetter
from app.serve.search.search import Search

_FETCH_BYTES: Final = 256 * 1024
#: The maximum refused dead letters of a partition; with more, the part does not continue.
_MOST_REFUSED: Final = 1_000
_TOO_MANY: Final = (
    f"more than {_MOST_REFUSED:,} dead letters are outside the namespaces of the job's creator. "
    "Stop it, and start a job whose filter excludes them"
)
#: Errors of one record, or of a record before it, but not of all records for the topic.
_OF_A_RECORD: Final = (TooLarge, BatchRejected, Recalled)


class SendingBatch(NamedTuple):
    """A batch of requests for one partition, and the offsets of the dead letters in it."""

    topic: str
    partition: int
    batch: Batch
    offsets: list[int]


class Settled:
    """The outcomes of the dead letters in one chunk."""

    def __init__(self) -> None:
        """Begin without outcomes."""
        self.sent, self.refused = set[int](), set[int]()
        #: The `topic-partition-offset` of each letter that was sent again, with the home partition of its ID.
        self.sources: dict[str, int] = {}
        #: The first letter that could not be sent for now, and its error.
        self.failed: tuple[int, SendError] | None = None
        #: The end offset of each input partition after the letters that were sent to it.
        self.ends: dict[tuple[str, int], int] = {}

    def fail(self, offset: int, error: SendError) -> None:
        """Store the error of a letter that could not be sent for now, if its offset is the lowest."""
        if self.failed is None or offset < self.failed[0]:
            self.failed = offset, error


class Sorted(NamedTuple):
    """Letters that match the job's filter: requests to send, offsets of incomplete ones and of those not permitted."""

    requests: dict[int, Sending]
    incomplete: list[int]
    outside: list[int]

    def before(self, end: int) -> "Sorted":
        """Return the letters before an offset."""
        requests = {offset: again for offset, again in self.requests.items() if offset < end}
        return Sorted(requests, *([one for one in found if one < end] for found in (self.incomplete, self.outside)))


class ResendPart(JobPart):
    """Sends dead letters to the inputs that they came from, and counts the outcomes in their events.

    Each is sent once, except for letters in flight when the worker is killed. A letter that its input refuses, for
    example because of its size, counts as `refused`, and the rest continues; if an input accepts none for now, the part
    continues there later. Letters that the job's creator may not send because of namespaces are `refused` too.
    """

    def __init__(self, engine: Engine, search: Search, log: JobLog, job: Job, partition: int) -> None:
        """Continue from the progress in `log`, within the permissions of the job's creator."""
        super().__init__(engine, search, log, job, partition)
        self._bounds = NamespaceBounds(engine.settings)
        self._giver = Caller(job.by, "admin", namespaces=tuple(sorted(job.namespaces)) if job.bound else None)

    async def run(self) -> None:
        """Work until the part is over, the job is stopped, or another worker owns the partition.

        Raises a SendError or KafkaError; the recorded progress stays, and the part can continue from there.
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
        """Send letters, record which were sent, and wait for their outcomes."""
        found = self._sorted(records)
        allowed = await self._reserve(len(found.requests))
        if allowed < len(found.requests):
            if not self._mine():
                return
            end = list(found.requests)[allowed]
            found = found.before(end)
            self._part = msgspec.structs.replace(self._part, limited=True)
        topics = self._engine.settings.topics
        homes = homes_of(found.requests.values(), topics.partitions)
        self._watch = await EventWatch.begin(self._engine.cluster, topics.events_topic, homes)
        settled = Settled()
        await self._submit(batches_of(found.requests.items(), self._engine.clock.wall_ms()), found, settled)
        for alone in batches_of(self._again(found, settled), self._engine.clock.wall_ms(), most=1):
            await self._submit([alone], found, settled)
        for offset in found.outside:
            self._pass_over(offset, settled)
        await self._settle(settled, found.incomplete, min(position, end), end)
        if settled.sources:
            outcomes = await self._watch.outcomes(settled.sources, PATIENCE_S)
            await self._count(outcomes, over=settled.failed is None and position >= end)
        if settled.failed is not None:
            raise settled.failed[1]
        await self._ingested(settled.ends)  # so that other requests get a turn

    def _sorted(self, records: list[Stored]) -> Sorted:
        """Return the letters in `records` that match the job's filter, sorted by whether they can be sent."""
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
            except OutsideNamespaces:
                found.outside.append(record.offset)
        return found

    async def _settle(self, settled: Settled, incomplete: list[int], position: int, end: int) -> None:
        """Record which letters were sent."""
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
            over = after >= end and not settled.sent  # their outcomes are counted first
            await self._note(str(after), part.sent + len(settled.sent), +outcomes, untold, over=over)

    async def _count(self, outcomes: Counter[str], *, over: bool) -> None:
        """Record the outcomes of letters that were sent."""
        part = self._part
        await self._note(
            part.after, part.sent, Counter(part.outcomes) + outcomes, part.untold - outcomes.total(), over=over
        )

    def _again(self, found: Sorted, settled: Settled) -> list[tuple[int, Sending]]:
        """Return the letters to send one at a time, because one record of their batch may be at fault."""
        if settled.failed is None or not isinstance(settled.failed[1], _OF_A_RECORD):
            return []
        settled.failed = None
        return [one for one in found.requests.items() if one[0] not in settled.sent | settled.refused]

    async def _submit(self, sendings: list[SendingBatch], found: Sorted, settled: Settled) -> None:
        """Send batches, and store the result of each in `settled`."""
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
        """Refuse a letter that is outside of the creator's namespaces."""
        if self._room(settled):
            settled.refused.add(offset)
        else:
            settled.fail(offset, SendError(_TOO_MANY))

    def _room(self, settled: Settled) -> bool:
        return len(self._part.refused) + len(settled.refused) < _MOST_REFUSED

    def _refuses(self, error: SendError, settled: Settled) -> bool:
        """Return whether a letter that was sent alone is refused permanently, and may be skipped."""
        return self._room(settled) and isinstance(error, _OF_A_RECORD) and not isinstance(error, Recalled)


def batches_of(requests: Iterable[tuple[int, Sending]], now_ms: int, most: int = BATCH) -> list[SendingBatch]:
    """Return requests in batches by partition, each with at most `most`, in the order in which they come."""
    sendings, last = list[SendingBatch](), dict[tuple[str, int], SendingBatch]()
    for offset, (topic, partition, request, _) in requests:
        sending, headers = last.get((topic, partition)), list(request.headers)
        if (
            sending is None
            or len(sending.offsets) == most
            or not sending.batch.append(now_ms, request.key, request.value, headers)
        ):
            sending = last[topic, partition] = SendingBatch(topic, partition, Batch(), [])
            sending.batch.append(now_ms, request.key, request.value, headers)
            sendings.append(sending)
        sending.offsets.append(offset)
    return sendings
