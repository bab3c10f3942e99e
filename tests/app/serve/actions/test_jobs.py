"""A worker's parts of jobs: a part that fails does not hold up others, and a part records its sent letters."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.serve.access.caller import Caller
from app.serve.actions import jobs as module
from app.serve.actions.job import Job, JobAction
from app.serve.actions.job_log import JobLog
from app.serve.actions.jobs import Jobs
from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.search.filter import Filter
from app.settings.settings import Settings
from tests.harness.simulated_time import in_simulated_time


class Log(JobLog):
    """A topic that has one job."""

    async def read(self) -> bool:
        return True


def jobs_of(act: JobAction) -> Jobs:
    """Return the part of one job for one partition."""
    engine: Any = SimpleNamespace(settings=Settings.from_env({}), view=SimpleNamespace(ready_reason=lambda: None))
    search: Any = SimpleNamespace(served=[0])
    log, unused = Log(engine), SimpleNamespace()
    log.jobs["j"] = Job(job_id="j", at_ms=0, by="x", role="admin", act=act, filter=Filter(), counted=1, ends=[{}])
    return Jobs(engine, search, *(unused, log, unused))  # type: ignore[arg-type]


@in_simulated_time
async def test_a_part_with_an_unexpected_error_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun = []

    class Broken:
        def __init__(self, *_: object) -> None:
            begun.append(1)

        async def run(self) -> None:
            raise ValueError("year 10240 is out of range")

    monkeypatch.setattr(module, "JobPart", Broken)
    running = asyncio.create_task(jobs_of("cancel").run())
    await asyncio.sleep(0.5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert len(begun) == 1
    assert "partition 0: this part of job j failed and will be retried" in caplog.text


@in_simulated_time
async def test_jobs_of_one_user_leave_room_for_jobs_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    class Endless:
        def __init__(self, _engine: object, _search: object, _log: object, job: Job, _number: int) -> None:
            begun.append(job.by)

        async def run(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(module, "JobPart", Endless)
    jobs: Any = jobs_of("cancel")
    jobs._search.served = range(10)
    jobs._log.jobs["j"] = msgspec.structs.replace(jobs._log.jobs["j"], ends=[{}] * 10)
    running = asyncio.create_task(jobs.run())
    await asyncio.sleep(0.02)
    assert begun == ["x"] * 3
    jobs._log.jobs["k"] = msgspec.structs.replace(jobs._log.jobs["j"], job_id="k", by="y")
    jobs.wake()
    await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert begun == ["x", "x", "x", "y"]


@pytest.mark.parametrize("namespaces", [None, ("team-a",)])
async def test_a_job_says_whether_its_creator_is_bound_to_namespaces(namespaces: tuple[str, ...] | None) -> None:
    async def ends() -> list[int]:
        return [7]

    async def record(*given: Any) -> None:
        await given[4]()

    async def begin(job: Job) -> Job:
        return job

    async def wake_others() -> None: ...

    caller = Caller("x", "admin", namespaces=namespaces)
    jobs: Any = jobs_of("resend")
    jobs._engine.clock = SimpleNamespace(brokers_ms=lambda: 1)
    jobs._dead_letters, jobs._audit = SimpleNamespace(ends=ends), SimpleNamespace(record=record)
    jobs._log.begin, jobs._search.wake_others = begin, wake_others

    job = (await jobs.start(caller, "resend", DeadLetterFilter(), 1, None)).job
    assert (job.bound, job.by, job.ends) == (namespaces is not None, "x", [{"delay-dead-letters": 7}])


@pytest.mark.parametrize(("act", "noted"), [("resend", ["sent", "noted"]), ("cancel", ["sent"])])
@in_simulated_time
async def test_a_worker_that_stops_first_records_the_letters_that_it_has_resent(
    monkeypatch: pytest.MonkeyPatch, act: JobAction, noted: list[str]
) -> None:
    """Orders for messages need not be: the next owner finds them among the requests."""
    done = []

    class Slow:
        def __init__(self, *_: object) -> None:
            """Do something that takes a while."""

        async def run(self) -> None:
            done.append("sent")
            await asyncio.sleep(0.1)
            done.append("noted")

    for name in ("JobPart", "ResendPart"):
        monkeypatch.setattr(module, name, Slow)
    jobs = jobs_of(act)
    running = asyncio.create_task(jobs.run())
    await asyncio.sleep(0.02)
    await jobs.end()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert done == noted
