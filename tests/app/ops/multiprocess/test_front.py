"""One address for several processes: each response comes from one process, and from another if the first has ended."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from app.ops.multiprocess.front import Front
from app.serve.web import guard
from app.settings.process import ProcessSettings
from app.settings.settings import Settings
from tests.harness.ports import free_port
from tests.harness.waiting import LIMIT_S

Serve = Callable[..., Awaitable[int]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve an application on a port of this machine, which is returned."""
    runners = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> int:
        web_app, port = web.Application(), free_port()
        web_app.add_routes([web.route("*", "/{path:.*}", handler)])
        runner = web.AppRunner(web_app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        runners.append(runner)
        return port

    yield start
    for runner in runners:
        await runner.cleanup()


def settings(port: int) -> ProcessSettings:
    return Settings.from_env({"PORT": str(port)}).process


def child(number: int, port: int, missing: str | None = None) -> Any:
    process = SimpleNamespace(number=number, url=f"http://127.0.0.1:{port}")
    return SimpleNamespace(process=process, missing=missing, ready=missing is None, restarts=0)


@pytest.fixture
async def front() -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """Return the address in front of children."""
    runners = []

    async def start(*children: Any) -> str:
        supervisor: Any = SimpleNamespace(children=list(children), proof="between us")
        port = free_port()
        runners.append(await Front(supervisor, ["localhost", "shop.example"]).serve(settings(port)))
        return f"http://127.0.0.1:{port}"

    yield start
    for runner in runners:
        await runner.stop()


async def echo(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    told = {"path": request.raw_path, "method": request.method, "body": body.decode(), "host": request.headers["Host"]}
    told |= {"token": request.headers.get(guard.PROOF_HEADER, ""), "hop": request.headers.get("X-Hop", "")}
    told["address"] = request.headers.get(guard.ADDRESS_HEADER, "")
    return web.json_response(told, status=201, headers={"X-Two": "1", "Set-Cookie": "a=b"})


async def test_requests_and_answers_go_through_as_they_are(serve: Serve, front: Any) -> None:
    url = await front(child(1, await serve(echo)))

    headers = {"Host": "shop.example", "Connection": "X-Hop", "X-Hop": "1", guard.PROOF_HEADER: "forged"}
    async with aiohttp.ClientSession() as session:
        asked = session.post(URL(f"{url}/a%2Fb?c=%20", encoded=True), data=b"body", headers=headers)
        async with asked as answer:
            assert answer.status == 201
            assert answer.headers["X-Two"] == "1"
            assert answer.headers["Set-Cookie"] == "a=b"
            assert await answer.json() == {
                "path": "/a%2Fb?c=%20",
                "method": "POST",
                "body": "body",
                "host": "shop.example",
                "token": "between us",
                "hop": "",
                "address": "127.0.0.1",
            }


async def test_another_is_asked_if_one_is_gone(serve: Serve, front: Any) -> None:
    url = await front(child(1, free_port()), child(2, await serve(echo)))

    async with aiohttp.ClientSession() as session, session.get(f"{url}/") as answer:
        assert answer.status == 201


async def test_without_any_the_answer_says_when_to_come_back(front: Any) -> None:
    url = await front(child(1, free_port(), "it is starting"))

    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/api/v1/overview") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
        async with session.get(f"{url}/health/ready") as answer:
            assert (answer.status, await answer.text()) == (503, "process 1: it is starting\n")
        async with session.get(f"{url}/health/live") as answer:
            assert answer.status == 200


async def test_live_pages_come_as_they_are_written(serve: Serve, front: Any) -> None:
    async def live(request: web.Request) -> web.StreamResponse:
        told = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await told.prepare(request)
        await told.write(b"data: 1\n\n")
        await told.write(await request.read() or b"data: 2\n\n")
        return told

    url = await front(child(1, await serve(live)))

    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/events") as answer:
        assert await answer.content.readuntil(b"\n\n") == b"data: 1\n\n"
        assert await answer.content.readuntil(b"\n\n") == b"data: 2\n\n"


async def test_an_answer_that_breaks_off_is_not_made_whole(serve: Serve, front: Any) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        told = web.StreamResponse()
        await told.prepare(request)
        await told.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return told

    url = await front(child(1, await serve(broken)))

    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            async with session.get(f"{url}/") as answer:
                await answer.read()


async def test_metrics_that_are_refused_are_refused_here_too(serve: Serve, front: Any) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(status=401, text="who?", headers={"WWW-Authenticate": "Basic"})

    url = await front(child(1, await serve(refuse)))

    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Basic")


async def test_an_absolute_url_is_forwarded_by_its_path(serve: Serve, front: Any) -> None:
    url = URL(await front(child(1, await serve(echo))))
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"GET http://shop.example/a?b=1 HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 201")
    assert b'"path": "/a?b=1"' in answer


async def test_requests_for_an_unknown_host_are_not_answered(serve: Serve, front: Any) -> None:
    url = await front(child(1, await serve(echo)))

    async with aiohttp.ClientSession(headers={"Host": "evil.example"}) as session:
        for path in ("/metrics", "/health/live", "/health/ready", "/api/v1/overview"):
            async with session.get(f"{url}{path}") as answer:
                assert answer.status == 421
                assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_metrics_say_which_process_is_missing(
    serve: Serve, front: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    async def tell(_: web.Request) -> web.StreamResponse:
        return web.Response(text="# TYPE a gauge\na 1\n")

    url = await front(child(1, await serve(fail)), child(2, await serve(tell)), child(3, free_port()))

    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.get(f"{url}/metrics") as answer:
                shown = await answer.text()
    up = [line for line in shown.splitlines() if line.startswith("delay_process_up{")]
    assert up == [f'delay_process_up{{process="{number}"}} {value}' for number, value in ((1, 0), (2, 1), (3, 0))]
    assert capsys.readouterr().err.count("so its metrics are missing") == 2


async def test_many_open_pages_leave_room_for_others(serve: Serve, front: Any) -> None:
    waiting = asyncio.Event()

    async def page(request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1/events":
            await waiting.wait()
        return web.Response(text="here")

    url = await front(child(1, await serve(page)))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        pages = [asyncio.create_task(session.get(f"{url}/api/v1/events")) for _ in range(120)]
        await asyncio.sleep(0.5)
        async with asyncio.timeout(LIMIT_S), session.get(f"{url}/") as answer:
            assert await answer.text() == "here"
        waiting.set()
        for one in pages:
            (await one).close()


async def test_compressed_bodies_are_refused_and_bodies_declared_as_identity_pass(serve: Serve, front: Any) -> None:
    url = await front(child(1, await serve(echo)))
    packed, plain = {"Content-Encoding": "gzip"}, {"Content-Encoding": "identity"}

    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/api/v1/messages", data=gzip.compress(b"{}"), headers=packed) as answer:
            assert answer.status == 415
        async with session.post(f"{url}/api/v1/messages", data=b"body", headers=plain) as answer:
            assert (answer.status, (await answer.json())["body"]) == (201, "body")
