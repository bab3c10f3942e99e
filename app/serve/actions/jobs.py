"""Jobs of an installation: each worker does the parts of its partitions; there is no leader."""

import asyncio
import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Final

import aiokafka.errors

from app.base.errors import PunctualError
from app.engine.engine import Engine
from app.kafka.errors import SendError
from app.kafka.metadata.reader import PartitionReader
from app.kafka.patience import brokers_answer
from app.serve.access.caller import Caller
from app.serve.actions.audit import Audit, noted_filter
from app.serve.actions.job import RESEND, Job, JobAction, JobStatus, status_of
from app.serve.actions.job_log import JobLog
from app.serve.actions.job_part import JobPart
from app.serve.actions.resend_part import ResendPart
from app.serve.actions.writing import PATIENCE_S, NotSent, Unconfirmed
from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.dead_letters.dead_letters import DeadLetters
from app.serve.messages.outcome import SENT, Outcome
from app.serve.search.filter import Filter
from app.serve.search.scans import ScanFailed
from app.serve.search.search import Search

log = logging.getLogger(__name__)

#: How often to check whether there is a topic of jobs, and, if there is, how often to read it.
_LOOK_S, _EVERY_S = 30.0, 1.0
#: A postponed part is retried after a second, then later each time, at most after this time.
_LONGEST_S: Final = 10.0
#: The maximum parts that a worker does at a time.
_AT_ONCE: Final = 4
#: When the worker stops, dead letters in flight have this long to be acknowledged and recorded.
_FINISH_S: Final = 1.0


class Jobs:
    """Starts and stops jobs, does this worker's parts, and returns the states of jobs."""

    def __init__(self, engine: Engine, search: Search, audit: Audit, log: JobLog, dead_letters: DeadLetters) -> None:
        self._engine, self._search, self._audit = engine, search, audit
        self._log, self._dead_letters = log, dead_letters
        self._wake = asyncio.Event()
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        #: How often each part was postponed: parts with fewer come first.
        self._put_off: Counter[tuple[str, int]] = Counter()

    async def start(
        self, caller: Caller, action: JobAction, wanted: Filter | DeadLetterFilter, confirm: int, due_ms: int | None
    ) -> JobStatus:
        """Start a job on messages or dead letters that match a filter, at most `confirm`, and return its state.

        The matches are not counted first, because that may take minutes on a busy machine. Raises Problem if the
        job cannot be recorded, or the ends of its topics cannot be read.
        """
        if isinstance(wanted, DeadLetterFilter):
            topic, pending, dead_letters = self._engine.settings.topics.dead_letters, Filter(), wanted
            ends = [{topic: end} for end in await self._dead_letters.ends()]
        else:
            pending, dead_letters, ends = wanted, None, await self._ends()
        job = Job(
            job_id=uuid.uuid4().hex[:12],
            at_ms=self._engine.clock.brokers_ms(),  # commands have the brokers' stamps
            by=caller.name,
            role=caller.role,
            bound=caller.bound,
            act=action,
            filter=pending,
            dead_letters=dead_letters,
            counted=confirm,
            ends=ends,
            due_ms=due_ms,
        )
        asked = {"filter": noted_filter(wanted.query()), "counted": confirm, "due_ms": due_ms}
        recorded = job

        async def execute() -> Outcome:
            nonlocal recorded
            unknown = f"the brokers have not confirmed job {job.job_id}: it may have started"
            with _confirmed(unknown, "the job has not started"):
                recorded = await self._log.begin(job)
            return Outcome(outcome=SENT, sentence="The job has started.")

        await self._audit.record(caller, f"{job.act} all", f"job {job.job_id}", asked, execute, job.namespaces)
        self._wake.set()
        await self._search.wake_others()
        return self._standing(recorded)

    async def _ends(self) -> list[dict[str, int]]:
        """Return, by partition, the end offsets of the topics with requests and commands. Raises NotSent."""
        topics = [*self._engine.settings.topics.inputs, self._engine.settings.topics.forwards]
        cluster, partitions = self._engine.cluster, range(self._engine.settings.topics.partitions)
        readers = [PartitionReader(cluster, topic, number) for number in partitions for topic in topics]
        sentence = "the job has not started: the brokers do not return the end of the requests topic"
        async with brokers_answer(PATIENCE_S, lambda _: NotSent(sentence)):
            ends = iter(await asyncio.gather(*(reader.written_end() for reader in readers)))
        return [{topic: next(ends) for topic in topics} for _ in partitions]

    async def stop(self, caller: Caller, job: Job) -> JobStatus:
        """Stop a job and return its state. Raises Problem."""

        async def execute() -> Outcome:
            with _confirmed("the brokers have not confirmed it: the job may still stop", "the job continues"):
                await self._log.stop(job)
            return Outcome(outcome=SENT, sentence="It is stopped.")

        await self._audit.record(caller, "stop", f"job {job.job_id}", {}, execute, job.namespaces)
        await self._search.wake_others()
        return self._standing(self._log.jobs[job.job_id])

    async def all(self) -> list[JobStatus]:
        """Return the states of all jobs on the topic, the newest first."""
        await self._log.read()
        jobs = sorted(self._log.jobs.values(), key=lambda job: job.at_ms, reverse=True)
        return [self._standing(job) for job in jobs]

    async def one(self, job_id: str) -> JobStatus | None:
        """Return the state of a job, or None."""
        await self._log.read()
        job = self._log.jobs.get(job_id)
        return None if job is None else self._standing(job)

    def _standing(self, job: Job) -> JobStatus:
        parts = [part for (job_id, _), part in self._log.parts.items() if job_id == job.job_id]
        return status_of(job, parts)

    def wake(self) -> None:
        """Make run() look for new jobs at once."""
        self._wake.set()

    async def run(self) -> None:
        """Follow the topic and do this worker's parts, until cancelled."""
        try:
            while True:
                self._wake.clear()
                ready = self._engine.view.ready_reason() is None
                there = ready and await self._log.read()
                if there:
                    self._begin()
                try:
                    async with asyncio.timeout(_EVERY_S if there or not ready else _LOOK_S):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            for task in self._running.values():
                task.cancel()

    async def end(self) -> None:
        """Begin no more parts, and give dead letters in flight time to be recorded as sent.

        The next owner would send unrecorded dead letters again. It finds unrecorded commands among the requests.
        """
        self._log.closing.set()
        jobs = self._log.jobs
        tasks = [task for (job_id, _), task in self._running.items() if jobs[job_id].act == RESEND]
        if tasks:
            await asyncio.wait(tasks, timeout=_FINISH_S)

    def _begin(self) -> None:
        if self._log.closing.is_set():
            return
        left = sorted(self._left(), key=lambda one: self._put_off[one[0].job_id, one[1]])
        while left and len(self._running) < _AT_ONCE:
            # The user with the fewest parts under way comes first; a user with all other places leaves the last one.
            running = Counter(self._log.jobs[job_id].by for job_id, _ in self._running)
            job, number = chosen = min(left, key=lambda one: running[one[0].by])
            if running[job.by] >= _AT_ONCE - 1:
                break
            left.remove(chosen)
            self._running[job.job_id, number] = asyncio.create_task(self._do(job, number))

    def _left(self) -> Iterator[tuple[Job, int]]:
        for job in self._log.jobs.values():
            for number in () if job.stopped else self._search.served:
                part = self._log.parts.get((job.job_id, number))
                over = number >= len(job.ends) or (part is not None and part.over)  # partitions may be new
                if not over and (job.job_id, number) not in self._running:
                    yield job, number

    async def _do(self, job: Job, number: int) -> None:
        try:
            kind = ResendPart if job.act == RESEND else JobPart
            await kind(self._engine, self._search, self._log, job, number).run()
        except (ScanFailed, SendError, aiokafka.errors.KafkaError, TimeoutError) as error:
            sentence = "partition %d: this part of job %s is postponed: %s"
            log.warning(sentence, number, job.job_id, error, extra={"partition": number})
            await self._rest(job, number)
        except Exception:
            sentence = "partition %d: this part of job %s failed and will be retried"
            log.exception(sentence, number, job.job_id, extra={"partition": number})
            await self._rest(job, number)
        finally:
            self._running.pop((job.job_id, number), None)
            self._wake.set()

    async def _rest(self, job: Job, number: int) -> None:
        self._put_off[job.job_id, number] += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(_LONGEST_S, _EVERY_S * self._put_off[job.job_id, number])):
                await self._log.closing.wait()


@contextlib.contextmanager
def _confirmed(unknown: str, failed: str) -> Iterator[None]:
    """Raise Unconfirmed with the sentence `unknown`, or NotSent with `failed`, if brokers do not confirm a record."""
    try:
        yield
    except TimeoutError as error:
        raise Unconfirmed(f"{unknown}. Check before you try again") from error
    except (SendError, aiokafka.errors.KafkaError, PunctualError) as error:
        raise NotSent(f"{failed}: {str(error) or 'the brokers do not respond'}") from error
