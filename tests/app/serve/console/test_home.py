"""The timelines that the first page requests: a limited number at a time, however many spans it shows."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from app.dev.testing.simulated_time import SimulatedLoop
from app.serve.access.caller import CALLER, Caller
from app.serve.console.api import JsonAnswer
from app.serve.console.home import HomePage

if TYPE_CHECKING:
    from aiohttp import web

    from app.serve.console.pages import Pages


class Slow:
    """A desk whose API answers once it is free."""

    def __init__(self) -> None:
        self.free, self.asked = asyncio.Event(), 0

    def api(self, _request: Any) -> "Slow":
        return self

    async def get(self, _path: str, _query: Any) -> JsonAnswer:
        self.asked += 1
        await self.free.wait()
        return JsonAnswer(200, {})


def test_of_a_thousand_spans_a_limited_number_is_requested_first() -> None:
    async def look() -> None:
        pages = Slow()
        home = HomePage(cast("Pages", pages))

        async def seen(name: str, **zoom: str) -> int:
            return (await home._timeline(cast("web.Request", {CALLER: Caller(name, "viewer")}), zoom)).status

        statuses = await asyncio.gather(*(seen("ann", **{"from": "0", "to": str(to)}) for to in range(1_000)))
        assert set(statuses) == {202}
        assert pages.asked == 16
        assert await seen("bob") == 202
        assert pages.asked == 17  # what everybody sees first does not wait for what somebody looks at
        pages.free.set()
        await asyncio.sleep(1.0)
        assert await seen("bob") == await seen("ann", **{"from": "0", "to": "999"}) == 200

    loop = SimulatedLoop()
    loop.run_until_complete(look())
    loop.close()
