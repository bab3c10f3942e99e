"""The requests of a destination's forms to the API."""

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from app.engine.reports.state import Wanted
from app.engine.throttle.control import Control
from app.serve.console import console
from app.serve.web.answers import as_json
from app.serve.web.routes import register
from punctual.contract.rate import Rate

if TYPE_CHECKING:
    from tests.app.serve.web.conftest import FakeState

Client = TestClient[web.Request, web.Application]
Record = Callable[..., dict[str, Any]]


@pytest.fixture
def asked() -> list[Any]:
    return []


@pytest.fixture
async def client(state: "FakeState", asked: list[Any]) -> AsyncIterator[Client]:
    async def act(request: web.Request) -> web.Response:
        asked.append((request.path, await request.json()))
        return as_json({"outcome": "sent"})

    web_app = web.Application()
    register(web_app, state)
    web_app.router.add_post("/api/v1/destinations/{to}/{act}", act)
    console.register(web_app, state)
    async with TestClient(TestServer(web_app)) as client:
        yield client


@pytest.mark.parametrize(
    ("form", "rate"),
    [
        ({"per_s": " 20 ", "burst": ""}, "20/s"),
        ({"per_s": "1000000", "burst": "5"}, "1000000/s burst 5"),
        ({"per_s": "1234.567891"}, "1234.567891/s"),
    ],
)
async def test_a_rate_limit_is_sent_as_it_was_typed(
    client: Client, asked: list[Any], form: dict[str, str], rate: str
) -> None:
    await client.post("/destinations/orders/rate", data=form, allow_redirects=False)
    assert asked == [("/api/v1/destinations/orders/rate", {"rate": rate})]


async def test_a_rate_limit_is_removed_separately_and_stays_after_a_resume(
    client: Client, state: "FakeState", record: Record, asked: list[Any]
) -> None:
    state.wants = Wanted({"orders": Control(paused=True)}, {"orders": Rate(20.0)})
    state.report(record(0))
    text = await (await client.get("/destinations/orders")).text()
    assert "A rate limit set here stays until you remove it" in text
    assert '<button name="do" value="take-back" formnovalidate>' in text  # whatever the other fields say

    await client.post("/destinations/orders/resume", allow_redirects=False)
    form = {"per_s": "", "burst": "", "do": "take-back"}
    await client.post("/destinations/orders/rate", data=form, allow_redirects=False)
    path = "/api/v1/destinations/orders"
    assert asked == [(f"{path}/resume", {}), (f"{path}/rate", {"rate": None})]


@pytest.mark.parametrize("form", [{}, {"per_s": "fast"}, {"per_s": "1", "burst": "2.5"}])
async def test_a_rate_limit_that_is_not_a_number_is_not_sent(
    client: Client, asked: list[Any], form: dict[str, str]
) -> None:
    answer = await client.post("/destinations/orders/rate", data=form, allow_redirects=False)
    assert (answer.status, asked) == (303, [])
