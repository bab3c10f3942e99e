"""One partition's part of a job: its owner searches for matches in batches, and sends the commands for them.

The next batch is sent when the outcomes of the last one are known. So a job uses only spare capacity of ingest, and
delays the commands of others by at most one batch.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from app.engine.engine import Engine
from app.kafka.metadata.reader import PartitionReader
from app.kafka.produce.records import offsets_of, send_records
from app.serve.actions.commands import EventWatch
from app.serve.actions.job import Job, PartProgress, command_for, concerns, ends_by_crc, mark
from app.serve.actions.job_log import JobLog
from app.serve.search.scan import END, ScanQuery
from app.serve.search.search import Search

BATCH: Final = 500
#: Events of a batch arrive within a second on a busy worker; after this time there must be another fault.
PATIENCE_S: Final = 30.0
_LOOK_S, _SOON_S = 0.2, 0.02
#: More than the clocks of workers and brokers differ.
_CLOCKS_MS: Final = 60_000


class JobPart:
    """Does one partition's part of one job, while this worker serves the partition."""

    #: Reads the events since before the first command; set when the part begins to run.
    _watch: EventWatch

    def __init__(self, engine: Engine, search: Search, log: JobLog, job: Job, partition: int) -> None:
        self._engine, self._search, self._log, self._job = engine, search, log, job
        part = log.parts.get((job.job_id, partition)) or PartProgress(job_id=job.job_id, partition=partition)
        self._part = msgspec.structs.replace(part, epoch=engine.epoch(partition))

    async def run(self) -> None:
        """Work until the part is over, the job is stopped, or another worker owns the partition.

        Raises ScanFailed, a SendError, a KafkaError or TimeoutError; the part can continue from the recorded progress.
        """
        await self._count_uncounted()
        topic = self._engine.settings.topics.events_topic
        self._watch = await EventWatch.begin(self._engine.cluster, topic, [self._part.partition])
        while not self._part.over and self._mine():
            if self._has_read():
                await self._batch()
            else:
                await asyncio.sleep(_LOOK_S)

    async def _count_uncounted(self) -> None:
        """Count the batch that the part's previous owner sent but did not record before it died.

        Its commands are read from the requests topic, and their outcomes from the events since.
        """
        engine, part = self._engine, self._part
        topic, number = engine.settings.topics.requests, part.partition
        since = max(part.ordered_to, self._job.ends[number].get(topic, 0))
        since = max(since, await PartitionReader(engine.cluster, topic, number).begin())
        reader = PartitionReader(engine.cluster, topic, number, since)
        marked, end = mark(self._job), await reader.end()
        sent = {record.offset async for record in reader.up_to(end) if record.value == marked and record.offset < end}
        if not sent:
            return
        events = engine.settings.topics.events_topic
        since_ms = (part.at_ms or self._job.at_ms) - _CLOCKS_MS
        start = await PartitionReader(engine.cluster, events, number).after(since_ms)
        self._watch = EventWatch({number: PartitionReader(engine.cluster, events, number, start)})
        reported = await self._outcomes(sent)
        await self._ingested({(topic, number): max(sent) + 1})  # the table changes after the event
        outcomes, untold = Counter(part.outcomes) + reported, part.untold + len(sent) - reported.total()
        self._part = msgspec.structs.replace(part, ordered_to=max(sent) + 1)
        await self._note(part.after, part.sent + len(sent), outcomes, untold, over=False)

    async def _ingested(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Wait until the partitions that are served here have ingested their inputs up to these offsets."""
        for (topic, number), end in ends.items():
            while self._mine():
                position = self._engine.position(topic, number)
                if position is None or position >= end:
                    break
                await asyncio.sleep(_SOON_S)

    def _has_read(self) -> bool:
        """Whether this partition has ingested all requests that its inputs held when the job was started."""
        number = self._part.partition
        return all(self._engine.has_ingested(topic, number, end) for topic, end in self._job.ends[number].items())

    def _mine(self) -> bool:
        job = self._log.jobs.get(self._job.job_id)
        there = job is not None and not job.stopped and not self._log.closing.is_set()
        return there and self._part.partition in self._search.served

    async def _batch(self) -> None:
        part = self._part
        query = ScanQuery(filter=self._job.filter, after=part.after_place, limit=BATCH, most=0)
        result = await self._search.scans.scan(query, part.partition, job=True)
        if not self._mine():  # a scan may wait for its turn, and the job may have been stopped in that time
            return
        ends = ends_by_crc(self._job, part.partition, lambda topic: self._engine.base(topic, part.partition))
        rows = [row for row in result.rows if concerns(ends, row)]
        allowed = await self._reserve(len(rows))
        if allowed < len(rows) and not self._mine():
            return
        limited, rows = allowed < len(rows), rows[:allowed]
        outcomes, untold = Counter(part.outcomes), part.untold
        if rows:
            requests = [command_for(self._job, row) for row in rows]
            records = [(one.key, one.value, list(one.headers)) for one in requests]
            submit = partial(self._engine.sender.submit, self._engine.settings.topics.requests, part.partition)
            offsets = offsets_of(await send_records(records, self._engine.clock.wall_ms, submit))
            reported = await self._outcomes(offsets)
            outcomes.update(reported)
            untold += len(rows) - reported.total()
            self._part = msgspec.structs.replace(self._part, ordered_to=offsets[-1] + 1)
        self._part = msgspec.structs.replace(self._part, limited=limited)
        over = limited or result.up_to >= END
        await self._note(result.up_to.text(), part.sent + len(rows), outcomes, untold, over=over)

    async def _reserve(self, wanted: int) -> int:
        return await reserve(self._log, self._job, self._part, wanted, self._mine)

    async def _note(self, after: str, sent: int, outcomes: Counter[str], untold: int, *, over: bool) -> None:
        self._part = msgspec.structs.replace(
            self._part,
            after=after,
            sent=sent,
            reserved=sent,
            outcomes=dict(outcomes),
            untold=untold,
            over=over,
            worker=self._engine.settings.process.url,
            at_ms=self._engine.clock.wall_ms(),
        )
        await self._log.note(self._part)

    async def _outcomes(self, offsets: Iterable[int]) -> Counter[str]:
        topic, number = self._engine.settings.topics.requests, self._part.partition
        base = self._engine.base(topic, number)
        sources = {f"{topic}-{number}-{base + offset}": number for offset in offsets}
        return await self._watch.outcomes(sources, PATIENCE_S)


async def reserve(log: JobLog, job: Job, part: PartProgress, wanted: int, goes_on: Callable[[], bool]) -> int:
    """Return how many of the `wanted` messages a part may act on: all if they are within the job's limit.

    Several workers do the parts, without a leader. So a part records how many messages it is about to act on before it
    does, then reads the records of the others. Of two parts that write at the same time at least one reads the other's
    record, and withdraws its own if both together exceed the limit.

    A smaller number is final, because other parts use the rest; 0 is not final once the part no longer `goes_on`.
    Raises TimeoutError if the log cannot be read.
    """
    while goes_on():
        left, settled = _left(log, job, part)
        count = min(wanted, left)
        if count < wanted and not settled:
            await asyncio.sleep(_LOOK_S)
            await _read(log)
            continue
        if count <= 0:
            return 0
        await log.note(msgspec.structs.replace(part, reserved=part.sent + count))
        await _read(log)
        if _left(log, job, part)[0] >= count:
            return count
        await log.note(msgspec.structs.replace(part, reserved=part.sent))
        await asyncio.sleep(random.uniform(0, _LOOK_S))  # noqa: S311 - so that the two do not collide again
    return 0


def _left(log: JobLog, job: Job, part: PartProgress) -> tuple[int, bool]:
    """Return how many messages other parts leave, and whether no part is about to act."""
    of_job = (one for (job_id, _), one in log.parts.items() if job_id == job.job_id)
    others = [one for one in of_job if one.partition != part.partition]
    taken = part.sent + sum(max(one.sent, one.reserved) for one in others)
    return job.counted - taken, all(one.reserved <= one.sent for one in others)


async def _read(log: JobLog) -> None:
    if not await log.read():
        raise TimeoutError("the jobs topic cannot be read")
