"""The records in the topic of jobs that count."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.serve.actions import job_log
from app.serve.actions.job import Job, PartProgress
from app.serve.actions.job_log import JobLog
from app.serve.dead_letters.dead_letter import SentAgain
from app.serve.search.filter import Filter
from app.settings.settings import Settings


@pytest.fixture
def log() -> JobLog:
    engine: Any = SimpleNamespace(settings=Settings.from_env({}))
    return JobLog(engine)


def job(**said: Any) -> bytes:
    fields = {"job_id": "j", "at_ms": 0, "by": "x", "role": "admin", "act": "cancel", "filter": Filter(), "counted": 1}
    return msgspec.json.encode(Job(**{**fields, "ends": [{}], **said}))


def part(epoch: int, after: str, *, over: bool) -> bytes:
    return msgspec.json.encode(PartProgress(job_id="j", partition=0, after=after, over=over, epoch=epoch))


@pytest.mark.parametrize(("appended_ms", "begins"), [(10_000, True), (10_001, False)])
def test_a_job_that_kafka_accepts_after_its_failure_was_reported_does_not_begin(
    log: JobLog, appended_ms: int, *, begins: bool
) -> None:
    log._take(0, appended_ms, b"j", job(begins_by_ms=10_000))

    assert ("j" in log.jobs) == begins


def test_a_job_that_has_begun_can_be_stopped_at_any_time(log: JobLog) -> None:
    log._take(0, 9_000, b"j", job(begins_by_ms=10_000))
    log._take(1, 99_000, b"j", job(begins_by_ms=10_000, stopped=True))

    assert log.jobs["j"].stopped


def test_jobs_of_older_workers_begin_at_any_time(log: JobLog) -> None:
    log._take(0, 99_000, b"j", job())

    assert "j" in log.jobs


def test_the_number_of_kept_jobs_has_a_maximum(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_JOBS", "_PARTS", "_LETTERS"):
        monkeypatch.setattr(job_log, name, 2)
    again = msgspec.json.encode(SentAgain(0, "x", ""))
    for number in range(4):
        log._take(number, 0, b"%d" % number, job(job_id=str(number)))
        log._take(
            number, 0, b"%d/0/1" % number, msgspec.json.encode(PartProgress(job_id=str(number), partition=0, epoch=1))
        )
        log._take(number, 0, b"resent/in-0-%d" % number, again)
    log._take(4, 0, b"1", job(job_id="1", stopped=True))

    assert [*log.jobs] == [job_id for job_id, _ in log.parts] == ["0", "1"]
    assert [*log._resent] == ["in-0-0", "in-0-1"]
    assert log.jobs["1"].stopped


def test_a_late_note_does_not_restart_a_part(log: JobLog) -> None:
    """A worker that has lost the partition may still have a note in flight."""
    log._take(0, 0, b"j/0/8", part(8, "5000", over=True))
    log._take(1, 0, b"j/0/7", part(7, "500", over=False))
    log._take(2, 0, b"j/0", part(0, "400", over=False))

    assert log.parts["j", 0].over


async def test_notes_of_two_owners_have_different_keys(log: JobLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction keeps both, whichever came last."""
    keys = []

    async def written(key: str, _value: object) -> None:
        keys.append(key)

    monkeypatch.setattr(log, "_write", written)
    for epoch in (7, 8):
        await log.note(PartProgress(job_id="j", partition=0, epoch=epoch))

    assert keys == ["j/0/7", "j/0/8"]
