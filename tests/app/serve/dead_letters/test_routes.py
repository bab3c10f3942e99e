"""Reading dead letters over HTTP: one user's many questions leave room for others."""

import asyncio
from types import SimpleNamespace
from typing import Any

from app.base.places import WHO
from app.serve.dead_letters.routes import DeadLetterRoutes
from app.serve.web.problem import Problem


async def test_requests_of_one_user_leave_room_for_others() -> None:
    free = asyncio.Event()
    unused: Any = SimpleNamespace()

    async def learn() -> None:
        """Know the letters that were resent."""

    view = DeadLetterRoutes(unused, learn)

    async def of(who: str) -> int:
        WHO.set(who)
        try:
            async with view._read():
                await free.wait()
        except Problem as problem:
            return problem.status
        return 200

    many = [asyncio.create_task(of("ann")) for _ in range(100)]
    await asyncio.sleep(0.01)
    other = asyncio.create_task(of("bob"))
    await asyncio.sleep(0.01)
    assert [one.result() for one in many if one.done()] == [503] * 84
    assert not other.done()
    free.set()
    assert await other == 200
    assert (await asyncio.gather(*many)).count(200) == 16
