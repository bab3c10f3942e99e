"""A job acts on at most the confirmed number of messages, for every owner of its parts and order of their notes."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.serve.actions import job_part
from app.serve.actions.job import Job, PartProgress
from app.serve.actions.job_part import reserve
from app.serve.search.filter import Filter


class Topic:
    """One topic of jobs, which each worker reads when it does."""

    def __init__(self) -> None:
        self.notes: list[PartProgress] = []


class Log:
    """A worker's view of the topic: writing and reading take their time."""

    def __init__(self, topic: Topic, chance: random.Random) -> None:
        self.parts: dict[tuple[str, int], PartProgress] = {}
        self._topic, self._chance, self._read = topic, chance, 0

    async def _wait(self) -> None:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)

    async def read(self) -> bool:
        await self._wait()
        end = len(self._topic.notes)
        await self._wait()
        for part in self._topic.notes[self._read : end]:
            self.parts[part.job_id, part.partition] = part
        self._read = end
        return True

    async def note(self, part: PartProgress) -> None:
        await self._wait()
        self._topic.notes.append(part)
        await self._wait()
        self.parts[part.job_id, part.partition] = part


async def do_part(log: Any, job: Job, number: int, batches: list[int]) -> PartProgress:
    """Act on batches of messages as a job's part does."""
    part = PartProgress(job_id="j", partition=number)
    for batch in batches:
        count = await reserve(log, job, part, batch, lambda: True)
        limited = count < batch
        part = msgspec.structs.replace(part, sent=part.sent + count, over=limited, limited=limited)
        part = msgspec.structs.replace(part, reserved=part.sent)
        await log.note(part)
        if limited:
            break
    return part


async def done(seed: int) -> tuple[int, int, bool]:
    """Return how many messages there were, how many a job acted on, and whether it says that there are more."""
    chance, topic = random.Random(seed), Topic()  # noqa: S311 - a seed
    batches = [[chance.randrange(1, 6) for _ in range(chance.randrange(5))] for _ in range(5)]
    job = Job(job_id="j", at_ms=0, by="x", role="admin", act="cancel", filter=Filter(), counted=12, ends=[{}] * 5)
    logs = [Log(topic, chance) for _ in range(3)]
    parts = (do_part(logs[number % 3], job, number, found) for number, found in enumerate(batches))
    async with asyncio.timeout(20):
        ended = await asyncio.gather(*parts)
    return sum(map(sum, batches)), sum(part.sent for part in ended), any(part.limited for part in ended)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_part, "_LOOK_S", 0.001)


@pytest.mark.parametrize("seed", range(100))
async def test_all_parts_together_act_on_the_confirmed_number_of_messages(seed: int) -> None:
    there, acted, limited = await done(seed)
    assert (acted, limited) == (min(there, 12), there > 12)


async def _not_read(_: Log) -> None:
    """Take one's own note for the only one."""


def _blind(*_: object) -> tuple[int, bool]:
    return 1_000, True


PLANTED: list[tuple[str, Callable[..., object]]] = [("_read", _not_read), ("_left", _blind)]


@pytest.mark.parametrize(("method", "faulty"), PLANTED)
async def test_parts_that_ignore_each_other_are_detected(
    method: str, faulty: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_part, method, faulty)
    monkeypatch.setattr(job_part, "_LOOK_S", 0)
    for seed in range(100):
        try:
            there, acted, _ = await done(seed)
        except TimeoutError:
            continue
        if acted > min(there, 12):
            return
    pytest.fail("nobody noticed")
