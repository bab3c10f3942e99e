"""One partition's part of a job that sends dead letters again, from the oldest to the newest at its start."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Final

import msgspec

from app.engine.engine import Engine
from app.kafka.errors import BatchRejected, SendError, TooLarge
from app.kafka.metadata.reader import PartitionReader, Stored
from app.kafka.produce.batch import Ack
from app.kafka.produce.records import send_records
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


class Letters:
    """The dead letters of one chunk that match the job's filter, and the outcome of each."""

    def __init__(self, refusable: int) -> None:
        """Begin without letters. At most `refusable` letters may be refused."""
        #: The requests to send by the offset of their letter, and the offsets of letters that cannot be sent.
        self.requests: dict[int, Sending] = {}
        self.incomplete, self.outside = list[int](), list[int]()
        self._refusable = refusable
        self.sent, self.refused = set[int](), set[int]()
        #: The `topic-partition-offset` of each letter that was sent again, with the home partition of its ID.
        self.sources: dict[str, int] = {}
        #: The first letter that could not be sent for now, and its error.
        self.failed: tuple[int, SendError] | None = None
        #: The end offset of each input partition after the letters that were sent to it.
        self.ends: dict[tuple[str, int], int] = {}

    def limit(self, count: int) -> int:
        """Leave out the letters from the request after the first `count` on, and return the offset of its letter."""
        end = list(self.requests)[count]
        self.requests = {offset: record for offset, record in self.requests.items() if offset < end}
        self.incomplete = [offset for offset in self.incomplete if offset < end]
        self.outside = [offset for offset in self.outside if offset < end]
        return end

    def fail(self, offset: int, error: SendError) -> None:
        """Store the error of a letter that could not be sent for now, if its offset is the lowest."""
        if self.failed is None or offset < self.failed[0]:
            self.failed = offset, error

    def refuse(self, offset: int, error: SendError) -> None:
        """Skip a letter that cannot be sent; store the error if too many have been skipped."""
        if len(self.refused) < self._refusable:
            self.refused.add(offset)
        else:
            self.fail(offset, error)


class ResendPart(JobPart):
    """Sends dead letters to the inputs that they came from, and counts the outcomes in their events.

    Each is sent once, except for letters in flight when the worker is killed. A letter that its input refuses, for
    example because of its size, counts as `refused`, and the rest continues; if an input accepts none for now, the part
    continues there later. Letters that the job's creator may not send because of namespaces are `refused` too.
    """

    def __init__(self, engine: Engine, search: Search, log: JobLog, job: Job, partition: int) -> None:
        super().__init__(engine, search, log, job, partition)
        self._bounds = NamespaceBounds(engine.settings)
        self._creator = Caller(job.by, "admin", namespaces=tuple(sorted(job.namespaces)) if job.bound else None)

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
        letters = self._letters(records)
        allowed = await self._reserve(len(letters.requests))
        if allowed < len(letters.requests):
            if not self._mine():
                return
            end = letters.limit(allowed)
            self._part = msgspec.structs.replace(self._part, limited=True)
        topics = self._engine.settings.topics
        homes = homes_of(letters.requests.values(), topics.partitions)
        self._watch = await EventWatch.begin(self._engine.cluster, topics.events_topic, homes)
        await self._submit(letters)
        for offset in letters.outside:
            letters.refuse(offset, SendError(_TOO_MANY))
        await self._record(letters, min(position, end), end)
        if letters.sources:
            part, outcomes = self._part, await self._watch.outcomes(letters.sources, PATIENCE_S)
            over, untold = letters.failed is None and position >= end, part.untold - outcomes.total()
            await self._note(part.after, part.sent, Counter(part.outcomes) + outcomes, untold, over=over)
        if letters.failed is not None:
            raise letters.failed[1]
        await self._ingested(letters.ends)  # so that other requests get a turn

    def _letters(self, records: list[Stored]) -> Letters:
        part, wanted = self._part, self._job.dead_letters
        letters = Letters(_MOST_REFUSED - len(part.refused))
        for record in records:
            one = DeadLetter.of(part.partition, record, most=None)
            if record.offset in part.ahead or wanted is None:
                continue
            if not wanted.fits(self._log.marked(one, besides=self._job.job_id)):
                continue
            try:
                request = resend(self._engine.settings.topics, one, self._engine.clock.wall_ms())
                self._bounds.check_resend(self._creator, request)
                letters.requests[record.offset] = request
            except IncompleteDeadLetter:
                letters.incomplete.append(record.offset)
            except OutsideNamespaces:
                letters.outside.append(record.offset)
        return letters

    async def _record(self, letters: Letters, position: int, end: int) -> None:
        part = self._part
        after = position if letters.failed is None else letters.failed[0]
        outcomes = Counter(part.outcomes)
        outcomes["refused"] += len(letters.refused)
        outcomes["incomplete"] += sum(offset < after for offset in letters.incomplete)
        done = part.ahead | letters.sent | letters.refused
        self._part = msgspec.structs.replace(
            part,
            ahead=frozenset(offset for offset in done if offset >= after),
            refused=part.refused | letters.refused,
        )
        if letters.failed is None or letters.sent or letters.refused or str(after) != part.after:
            untold = part.untold + len(letters.sent)
            over = after >= end and not letters.sent  # their outcomes are counted first
            await self._note(str(after), part.sent + len(letters.sent), +outcomes, untold, over=over)

    async def _submit(self, letters: Letters) -> None:
        """Send the requests of letters, each input partition's in order, and store the outcome of each letter."""
        engine, by_place = self._engine, defaultdict[tuple[str, int], list[int]](list)
        for offset, one in letters.requests.items():
            by_place[one.topic, one.partition].append(offset)

        def send(place: tuple[str, int], offsets: Iterable[int]) -> Awaitable[list[Ack | SendError]]:
            requests = (letters.requests[offset].request for offset in offsets)
            records = [(one.key, one.value, list(one.headers)) for one in requests]
            return send_records(records, engine.clock.wall_ms, partial(engine.sender.submit, *place))

        results = await asyncio.gather(*(send(place, offsets) for place, offsets in by_place.items()))
        for ((topic, partition), offsets), outcomes in zip(by_place.items(), results, strict=True):
            for letter, outcome in zip(offsets, outcomes, strict=True):
                if isinstance(outcome, Ack):
                    home = letters.requests[letter].home(engine.settings.topics, outcome.offset)
                    letters.sent.add(letter)
                    letters.sources[f"{topic}-{partition}-{outcome.offset}"] = home
                    letters.ends[topic, partition] = outcome.offset + 1
                elif isinstance(outcome, TooLarge | BatchRejected):
                    letters.refuse(letter, outcome)
                else:
                    letters.fail(letter, outcome)
