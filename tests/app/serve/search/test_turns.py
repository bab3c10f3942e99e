"""Turns of a worker's scanner: one user leaves some to others, and jobs always have theirs."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from app.base.places import WHO
from app.serve.search.filter import Filter
from app.serve.search.scan import ScanQuery
from app.serve.search.scans import ScanFailed, Scans


async def test_one_user_leaves_turns_to_others_and_a_job_has_its_own(tmp_path: Path) -> None:
    scans: Any = Scans(lambda: {0: tmp_path}, tmp_path)
    free = asyncio.Event()

    async def answer(_: object) -> object:
        await free.wait()
        return SimpleNamespace(found="found")

    scans._answer = answer

    async def ask(user: str, *, job: bool = False) -> object:
        WHO.set(user)
        return await scans.scan(ScanQuery(filter=Filter()), job=job)

    of_one = [asyncio.create_task(ask("ann")) for _ in range(30)]
    await asyncio.sleep(0)
    other, job = asyncio.create_task(ask("bob")), asyncio.create_task(ask("ann", job=True))
    await asyncio.sleep(0)
    free.set()
    found = await asyncio.gather(*of_one, return_exceptions=True)

    assert [isinstance(one, ScanFailed) for one in found] == [False] * 17 + [True] * 13
    assert (await other, await job) == ("found", "found")
    assert "try again in a moment" in str(found[-1])
