"""The console on the web port of a real Faust app; neither needs a broker for that."""

import asyncio
import dataclasses
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import aiohttp
import faust
import pytest

from app.base.listening import limits
from app.serve.web import faust_server
from app.serve.web.faust_server import attach
from app.serve.web.server import WORKER
from app.settings.process import ProcessSettings
from app.settings.settings import Settings
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S

if TYPE_CHECKING:
    from tests.app.serve.web.conftest import FakeState


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def faust_app(port: int) -> faust.App:
    return faust.App("web-test", web_bind="127.0.0.1", web_port=port, debug=True)


@pytest.fixture
def process(port: int) -> ProcessSettings:
    return Settings.from_env({"PORT": str(port)}).process


@pytest.fixture
async def url(faust_app: faust.App, state: "FakeState", port: int, process: ProcessSettings) -> AsyncIterator[str]:
    server = attach(faust_app, state, process)
    faust_app.web.init_server()  # as `faust worker` does before it starts the server
    await server.start()
    yield f"http://127.0.0.1:{port}"
    await server.stop()


async def test_the_web_view_is_served_in_place_of_fausts_own_pages(url: str) -> None:
    async with aiohttp.ClientSession(url) as session:
        async with session.get("/health/ready") as answer:
            assert answer.status == 200
        for path in (
            "/",
            "/table",
            "/table/",
            "/router",
            "/router/",
            "/graph",
            "/stats",
            "/assignment",
            "/performance",
        ):
            async with session.get(path) as answer:
                assert answer.status == 404


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3:6066", True),  # a kubelet asks the address of a pod
        ("[::1]:6066", True),
        ("[fe80::1]", True),
        ("localhost:8080", True),  # a port that is forwarded
        ("LOCALHOST.", True),
        (socket.gethostname(), True),
        ("worker-1.example:6066", True),
        ("page.punctual.svc", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:6066", False),
        ("localhost.evil.example", False),
        ("x" * 1_000, False),
    ],
)
async def test_the_console_is_served_only_under_ip_addresses_and_its_own_names(
    faust_app: faust.App, state: "FakeState", process: ProcessSettings, port: int, host: str, *, served: bool
) -> None:
    state.worker_url = "http://worker-1.example:6066"
    server = attach(faust_app, state, process, ["*.punctual.svc"])
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers={"Host": host}) as session:
            for path in ("/health/live", "/metrics", "/api/v1/overview", "/nothing"):
                async with session.get(path) as answer:
                    assert (answer.status == 421) is not served
                    if not served:
                        assert "DELAY_WEB_HOSTS" in await answer.text()
    finally:
        await server.stop()


@pytest.mark.usefixtures("url")
async def test_a_request_without_a_host_is_not_from_a_browser(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health/live HTTP/1.0\r\n\r\n")

    assert b" 200 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Have as many as this process may: both ends of all connections are here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.core
@pytest.mark.usefixtures("descriptors")
async def test_idle_connections_do_not_keep_others_out(url: str, port: int) -> None:
    async with AsyncExitStack() as stack:
        readers = []
        for _ in range(1_100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n")  # and no end of the head
            readers.append(reader)
        async with aiohttp.ClientSession(url) as session, session.get("/health/live") as answer:
            assert answer.status == 200
        open_now = sum(not reader.at_eof() and reader.exception() is None for reader in readers)

        assert open_now <= WORKER.connections.most


async def test_a_head_that_is_too_slow_ends_its_connection(
    faust_app: faust.App, state: "FakeState", process: ProcessSettings, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEAD_S", 0.3)
    server = attach(faust_app, state, process)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n")
        async with asyncio.timeout(LIMIT_S):
            while not reader.at_eof():
                writer.write(b"x: y\r\n")  # ever more of the head
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(), 0.05)
        writer.close()
    finally:
        await server.stop()


@pytest.fixture
def one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dataclasses.replace(WORKER.connections, most=1)
    monkeypatch.setattr(faust_server, "WORKER", dataclasses.replace(WORKER, connections=one))


@pytest.mark.usefixtures("one_connection")
async def test_a_client_that_reads_no_answer_makes_room_for_new_connections(url: str, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as greedy:
        await asyncio.get_running_loop().sock_sendall(_unblocked(greedy), b"GET /metrics HTTP/1.1\r\n\r\n" * 2_000)
        async with aiohttp.ClientSession(url) as session, session.get("/health/live") as answer:
            assert answer.status == 200
        with pytest.raises(ConnectionError):
            await _read_to_the_end(greedy)


def _unblocked(sock: socket.socket) -> socket.socket:
    sock.settimeout(0)
    return sock


async def _read_to_the_end(sock: socket.socket) -> None:
    async with asyncio.timeout(LIMIT_S):
        while await asyncio.get_running_loop().sock_recv(sock, 1 << 20):
            pass


async def test_the_reader_starts_and_stops_with_the_server(
    faust_app: faust.App, state: "FakeState", process: ProcessSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def start() -> None:
        seen.append("start")

    async def stop() -> None:
        seen.append("stop")

    monkeypatch.setattr(state.reader, "start", start)
    monkeypatch.setattr(state.reader, "stop", stop)
    server = attach(faust_app, state, process)
    await server.start()
    assert seen == ["start"]
    await server.stop()
    assert set(seen) == {"start", "stop"}


def test_attaching_too_late_is_an_error_with_a_remedy(
    faust_app: faust.App, state: "FakeState", process: ProcessSettings
) -> None:
    assert faust_app.web
    with pytest.raises(RuntimeError, match="attach the console before"):
        attach(faust_app, state, process)


def test_faust_still_reads_the_lists_that_switch_its_pages_off(
    faust_app: faust.App, state: "FakeState", process: ProcessSettings
) -> None:
    # Without the lists of the driver, its own pages would come back silently.
    plain = {prefix for prefix, _ in faust.App("plain", debug=True).web._enabled_blueprints()}
    assert {"/table", "/router", "/graph"} <= plain
    assert attach(faust_app, state, process)._enabled_blueprints() == []


@pytest.mark.parametrize(
    ("read_only", "headers", "status"),
    [
        (False, {"Content-Type": "application/json"}, 200),
        (False, {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}, 200),
        (False, {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403),
        (False, {"Content-Type": "application/json", "Origin": "http://evil.example"}, 403),
        (False, {"Content-Type": "application/merge-patch+json"}, 200),
        (False, {}, 200),
        (False, {"Origin": "http://evil.example"}, 403),
        (False, {"Sec-Fetch-Site": "same-site"}, 403),
        (False, {"Content-Type": "text/plain"}, 415),
        (False, {"Content-Type": "application/octet-stream"}, 415),
        (True, {"Content-Type": "application/json"}, 403),
    ],
)
async def test_only_permitted_requests_change_data(
    faust_app: faust.App,
    state: "FakeState",
    process: ProcessSettings,
    port: int,
    read_only: bool,  # noqa: FBT001 - a case
    headers: dict[str, str],
    status: int,
) -> None:
    server = attach(faust_app, state, process, read_only=read_only)
    server.web_app.router.add_post("/api/v1/change", _changed)
    server.init_server()
    await server.start()
    body = b"{}" if "Content-Type" in headers else None
    try:
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
            session.post("/api/v1/change", data=body, headers=headers) as answer,
        ):
            assert answer.status == status
            assert ("detail" in await answer.json()) == (status != 200)
    finally:
        await server.stop()


async def _changed(_: aiohttp.web.Request) -> aiohttp.web.Response:
    return aiohttp.web.json_response({})
