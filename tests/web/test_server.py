"""The web view on the web port of a real Faust app; neither needs a broker for that."""

import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import aiohttp
import faust
import pytest

from app.web.server import attach

if TYPE_CHECKING:
    from tests.web.conftest import FakeState


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


@pytest.fixture
def faust_app(port: int) -> faust.App:
    return faust.App("web-test", web_bind="127.0.0.1", web_port=port, debug=True)


@pytest.fixture
async def url(faust_app: faust.App, state: "FakeState", port: int) -> AsyncIterator[str]:
    server = attach(faust_app, state)
    faust_app.web.init_server()  # as `faust worker` does before it starts the server
    await server.start()
    yield f"http://127.0.0.1:{port}"
    await server.stop()


async def test_the_web_view_is_served_in_place_of_fausts_own_pages(url: str) -> None:
    async with aiohttp.ClientSession(url) as session:
        async with session.get("/") as answer:
            assert "Punctual" in await answer.text()
        async with session.get("/health/ready") as answer:
            assert answer.status == 200
        for path in ("/table", "/table/", "/router", "/router/", "/graph", "/stats", "/assignment", "/performance"):
            async with session.get(path) as answer:
                assert answer.status == 404


async def test_the_reader_starts_and_stops_with_the_server(
    faust_app: faust.App, state: "FakeState", monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def start() -> None:
        seen.append("start")

    async def stop() -> None:
        seen.append("stop")

    monkeypatch.setattr(state.reader, "start", start)
    monkeypatch.setattr(state.reader, "stop", stop)
    server = attach(faust_app, state)
    await server.start()
    assert seen == ["start"]
    await server.stop()
    assert set(seen) == {"start", "stop"}


def test_attaching_too_late_says_what_to_do(faust_app: faust.App, state: "FakeState") -> None:
    assert faust_app.web
    with pytest.raises(RuntimeError, match="before anything asks"):
        attach(faust_app, state)


def test_faust_still_reads_the_lists_that_switch_its_pages_off(faust_app: faust.App, state: "FakeState") -> None:
    # Without the lists of the driver, its own pages would come back silently.
    plain = {prefix for prefix, _ in faust.App("plain", debug=True).web._enabled_blueprints()}
    assert {"/table", "/router", "/graph"} <= plain
    assert attach(faust_app, state)._enabled_blueprints() == []
