"""The examination that pages show: one at a time, even with several requests."""

import asyncio
from typing import Any

import pytest

from app.ops.doctor.examiner import Examiner


async def test_all_who_wait_get_the_same_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = None
    findings, examined = Examiner(nothing), list[Any]()

    async def examine() -> Any:
        await asyncio.sleep(0)
        examined.append(object())
        return examined[-1]

    monkeypatch.setattr(findings, "_examine", examine)

    found = await asyncio.gather(findings._look(5), findings._look(5), findings._look(5))

    assert list(found) == [examined[0]] * 3
