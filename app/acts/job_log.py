"""The topic of jobs: what is to be done, and how far each partition is, so that the next owner goes on from there."""

import asyncio
from typing import Final

import aiokafka.errors
import msgspec

from app.acts.job import Job, Part
from app.acts.writing import write
from app.engine import Engine
from app.kafka.metadata.reader import PartitionReader
from app.process.foreign_records import passed_over
from app.topics import ensure_jobs

_LIMIT_S: Final = 10.0

_job = msgspec.json.Decoder(Job).decode
_part = msgspec.json.Decoder(Part).decode


class JobLog:
    """What the topic says; without a topic there are no jobs, and nothing is wrong."""

    def __init__(self, engine: Engine) -> None:
        """Know of no job."""
        self._engine, self._topic = engine, engine.settings.jobs
        self._reader: PartitionReader | None = None
        self.jobs: dict[str, Job] = {}
        self.parts: dict[tuple[str, int], Part] = {}

    async def read(self) -> bool:
        """Read to the topic's end; return False if it is not there, or nobody tells."""
        cluster = self._engine.cluster
        try:
            async with asyncio.timeout(_LIMIT_S):
                if not cluster.partitions(self._topic):
                    await cluster.refresh([self._topic])
                    if not cluster.partitions(self._topic):
                        return False
                if self._reader is None:
                    begin = await PartitionReader(cluster, self._topic, 0).begin()
                    self._reader = PartitionReader(cluster, self._topic, 0, begin)
                end = await self._reader.end()
                async for record in self._reader.up_to(end):
                    self._take(record.offset, record.key or b"", record.value)
        except aiokafka.errors.OffsetOutOfRangeError:
            self._reader = None  # it was made anew
            self.jobs.clear()
            self.parts.clear()
        except (aiokafka.errors.KafkaError, TimeoutError):
            return False
        return True

    def _take(self, offset: int, key: bytes, value: bytes | None) -> None:
        try:
            if value is None:
                return
            if b"/" in key:
                part = _part(value)
                self.parts[part.job_id, part.partition] = part
            else:
                job = _job(value)
                self.jobs[job.job_id] = job
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            passed_over(self._topic, 0, offset, error)

    async def begin(self, job: Job) -> None:
        """Write a job down, creating the topic for the first one.

        Raises a SendError, a KafkaError, a TopicMismatch or TimeoutError if that is not possible.
        """
        async with asyncio.timeout(_LIMIT_S):
            await ensure_jobs(self._engine.settings)
            await self._write(job.job_id, job)
        self.jobs[job.job_id] = job

    async def stop(self, job: Job) -> None:
        """Write down that a job is to go no further. Raises as begin() does."""
        stopped = msgspec.structs.replace(job, stopped=True)
        async with asyncio.timeout(_LIMIT_S):
            await self._write(job.job_id, stopped)
        self.jobs[job.job_id] = stopped

    async def note(self, part: Part) -> None:
        """Write down how far a part is; waits as long as it takes."""
        await self._write(f"{part.job_id}/{part.partition}", part)
        self.parts[part.job_id, part.partition] = part

    async def _write(self, key: str, value: Job | Part) -> None:
        await write(self._engine, self._topic, 0, key.encode(), msgspec.json.encode(value))
