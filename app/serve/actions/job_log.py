"""The jobs topic: the jobs, and the progress of each partition, so that the next owner continues from there."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import aiokafka.errors
import msgspec

from app.base.process.skipped_records import bounded, passed_over
from app.engine.engine import Engine
from app.engine.topics.creation import ensure_jobs
from app.kafka.metadata.reader import PartitionReader
from app.kafka.metadata.topic_ids import topic_ids
from app.serve.actions.job import Job, PartProgress
from app.serve.actions.writing import PATIENCE_S, write
from app.serve.dead_letters.dead_letter import DeadLetter, SentAgain

_job = msgspec.json.Decoder(Job).decode
_part = msgspec.json.Decoder(PartProgress).decode
_sent_again = msgspec.json.Decoder(SentAgain).decode

#: The key prefix of dead letters that were sent again one at a time.
_RESENT: Final = "resent/"
#: The maximum jobs, parts, and dead letters that were sent again one at a time, in memory.
_JOBS, _PARTS, _LETTERS = 10_000, 200_000, 100_000


class JobLog:
    """The content of the jobs topic; without a topic there are no jobs, which is not an error."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._topic = engine, engine.settings.topics.jobs
        self._reader: PartitionReader | None = None
        #: The ID of the topic that was read: another worker may delete and re-create the topic.
        self._id = ""
        self.jobs: dict[str, Job] = {}
        self.parts: dict[tuple[str, int], PartProgress] = {}
        self._resent: dict[str, SentAgain] = {}
        #: Set when the worker stops, so that no part begins.
        self.closing = asyncio.Event()

    async def read(self) -> bool:
        """Read to the end of the topic; return False if it does not exist, or brokers do not answer."""
        cluster = self._engine.cluster
        try:
            async with asyncio.timeout(PATIENCE_S):
                topics = await topic_ids(cluster, [self._topic])
                if self._topic not in topics or topics[self._topic].id != self._id:
                    self._forget()
                if self._topic not in topics:
                    return False
                self._id = topics[self._topic].id
                if self._reader is None:
                    begin = await PartitionReader(cluster, self._topic, 0).begin()
                    self._reader = PartitionReader(cluster, self._topic, 0, begin)
                end = await self._reader.end()
                async for record in self._reader.up_to(end):
                    self._take(record.offset, record.timestamp_ms, record.key or b"", record.value)
        except aiokafka.errors.OffsetOutOfRangeError:
            self._forget()
        except (aiokafka.errors.KafkaError, TimeoutError):
            return False
        return True

    def _forget(self) -> None:
        """Forget all jobs, because the topic was deleted or re-created."""
        self._reader = None
        self.jobs.clear()
        self.parts.clear()
        self._resent.clear()

    def _take(self, offset: int, appended_ms: int, key: bytes, value: bytes | None) -> None:
        try:
            if value is None:
                return
            value = bounded(value)
            if key.startswith(_RESENT.encode()):
                place, again = key.decode().removeprefix(_RESENT), _sent_again(value)
                _assure_room(self._resent, place, _LETTERS)
                self._resent[place] = again
            elif b"/" in key:
                part = _part(value)
                _assure_room(self.parts, (part.job_id, part.partition), _PARTS)
                self._heed(part)
            else:
                job = _job(value)
                late = job.begins_by_ms is not None and appended_ms > job.begins_by_ms
                if not late or job.stopped or job.job_id in self.jobs:
                    _assure_room(self.jobs, job.job_id, _JOBS)
                    self.jobs[job.job_id] = job
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            passed_over(self._topic, 0, offset, error)

    def _heed(self, part: PartProgress) -> None:
        """Store the progress of a part, unless a later owner has already recorded some: a record may come late."""
        known = self.parts.get((part.job_id, part.partition))
        if known is None or part.epoch >= known.epoch:
            self.parts[part.job_id, part.partition] = part

    async def begin(self, job: Job) -> Job:
        """Record a job, after creating the topic for the first one, and return it as recorded.

        Raises a SendError, a KafkaError or a TopicMismatch if that fails: the job never begins. After a TimeoutError
        it may have begun, unless the brokers store it later.
        """
        async with asyncio.timeout(PATIENCE_S):
            await ensure_jobs(self._engine.settings.kafka, self._engine.settings.topics)
            begins_by_ms = self._engine.clock.brokers_ms() + round(PATIENCE_S * 1_000)
            job = msgspec.structs.replace(job, begins_by_ms=begins_by_ms)
            await self._write(job.job_id, job)
        self.jobs[job.job_id] = job
        return job

    async def stop(self, job: Job) -> None:
        """Record that a job stops. Raises as begin() does."""
        stopped = msgspec.structs.replace(job, stopped=True)
        async with asyncio.timeout(PATIENCE_S):
            await self._write(job.job_id, stopped)
        self.jobs[job.job_id] = stopped

    async def note(self, part: PartProgress) -> None:
        """Record the progress of a part, without a time limit."""
        await self._write(f"{part.job_id}/{part.partition}/{part.epoch}", part)
        self._heed(part)

    async def resent(self, one: DeadLetter, again: SentAgain) -> None:
        """Record that a dead letter was sent again. Raises as begin() does."""
        async with asyncio.timeout(PATIENCE_S):
            await ensure_jobs(self._engine.settings.kafka, self._engine.settings.topics)
            await self._write(_RESENT + one.place, again)
        self._resent[one.place] = again

    def sent_again(self, one: DeadLetter, *, besides: str = "") -> SentAgain | None:
        """Return when a dead letter was sent again, by a user or by a job other than `besides`; None if it was not."""
        again = self._resent.get(one.place)
        if again is not None:
            return again
        if one.incomplete:
            return None  # no job sends incomplete dead letters
        for job in self.jobs.values():
            if job.dead_letters is None or job.job_id == besides:
                continue
            part = self.parts.get((job.job_id, one.partition))
            if part is not None and part.has_sent(one.offset) and job.dead_letters.fits(one):
                return SentAgain(part.at_ms, job.by, job.job_id)
        return None

    def marked(self, one: DeadLetter, *, besides: str = "") -> DeadLetter:
        """Return a dead letter with the time at which it was sent again, if it was."""
        again = self.sent_again(one, besides=besides)
        return one if again is None else msgspec.structs.replace(one, sent_again=again)

    async def _write(self, key: str, value: Job | PartProgress | SentAgain) -> None:
        await write(self._engine, self._topic, 0, key.encode(), msgspec.json.encode(value))


def _assure_room(known: Mapping[Any, object], key: object, most: int) -> None:
    """Raise ValueError if `known` is full and lacks `key`, because anyone may write to the topic."""
    if key not in known and len(known) >= most:
        raise ValueError(f"there are {most:,} others")
