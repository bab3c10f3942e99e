"""One partition's part of a job: it heeds that the job is stopped wherever it has waited."""

from types import SimpleNamespace
from typing import Any

import msgspec

from app.serve.actions.job import Job
from app.serve.actions.job_log import JobLog
from app.serve.actions.job_part import JobPart
from app.serve.search.filter import Filter
from app.settings.settings import Settings

JOB = Job(job_id="j", at_ms=0, by="x", role="admin", act="cancel", filter=Filter(), counted=1, ends=[{}])


async def test_a_job_that_is_stopped_while_a_scan_waits_for_its_turn_sends_nothing_more() -> None:
    asked = list[object]()

    async def scan(wanted: object, *_: object, job: bool) -> object:
        assert job
        asked.append(wanted)
        log.jobs["j"] = msgspec.structs.replace(JOB, stopped=True)
        return SimpleNamespace(rows=[object()])  # which nobody may look at

    engine: Any = SimpleNamespace(settings=Settings.from_env({}), epoch=lambda _: 1)
    search: Any = SimpleNamespace(served=[0], scans=SimpleNamespace(scan=scan))
    log = JobLog(engine)
    log.jobs["j"] = JOB
    part: Any = JobPart(engine, search, log, JOB, 0)

    await part._batch()

    assert len(asked) == 1
    assert not part._mine()
