"""One partition's part of a job: it heeds that the job is stopped wherever it has waited."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.base.clock import Clock
from app.kafka import Ack, Batch
from app.serve.actions import job_part as module
from app.serve.actions.job import Job
from app.serve.actions.job_log import JobLog
from app.serve.actions.job_part import JobPart
from app.serve.search.filter import Filter
from app.serve.search.scan import Place
from app.settings.settings import Settings
from punctual.client.requests import Request

JOB = Job(job_id="j", at_ms=0, by="x", role="admin", act="cancel", filter=Filter(), counted=1, ends=[{}])


async def test_a_job_that_is_stopped_while_a_scan_waits_sends_no_more_commands() -> None:
    asked = list[object]()

    async def scan(wanted: object, *_: object, job: bool) -> object:
        assert job
        asked.append(wanted)
        log.jobs["j"] = msgspec.structs.replace(JOB, stopped=True)
        return SimpleNamespace(rows=[object()])  # a row that must not be read

    engine: Any = SimpleNamespace(settings=Settings.from_env({}), epoch=lambda _: 1)
    search: Any = SimpleNamespace(served=[0], scans=SimpleNamespace(scan=scan))
    log = JobLog(engine)
    log.jobs["j"] = JOB
    part: Any = JobPart(engine, search, log, JOB, 0)

    await part._batch()

    assert len(asked) == 1
    assert not part._mine()


async def test_a_part_acts_only_on_messages_that_it_could_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, notes = list[int](), list[bool]()

    async def scan(*_: object, **__: object) -> object:
        return SimpleNamespace(rows=["a", "b", "c"], up_to=Place())

    async def submit(_topic: str, _number: int, batch: Batch) -> Ack:
        sent.append(batch.count)
        return Ack(0, -1)

    async def reserve(wanted: int) -> int:
        return wanted - 2

    async def outcomes(_: object) -> Counter[str]:
        return Counter(cancelled=1)

    async def note(*_: object, over: bool) -> None:
        notes.append(over)

    monkeypatch.setattr(module, "concerns", lambda *_: True)
    monkeypatch.setattr(module, "command_for", lambda _, id_: Request(id_.encode(), None, (), id_.encode()))
    engine: Any = SimpleNamespace(
        settings=Settings.from_env({}), epoch=lambda _: 1, clock=Clock(), sender=SimpleNamespace(submit=submit)
    )
    search: Any = SimpleNamespace(served=[0], scans=SimpleNamespace(scan=scan))
    log = JobLog(engine)
    log.jobs["j"] = JOB
    part: Any = JobPart(engine, search, log, JOB, 0)
    part._reserve, part._outcomes, part._note = reserve, outcomes, note

    await part._batch()

    assert (sent, notes, part._part.limited) == ([1], [True], True)
