"""Callbacks over HTTP to real servers: each host has its own limit, and delays no other work."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from app.engine.due.due_loop import FIRE_BATCH
from tests.app.stage import Stage
from tests.harness.waiting import LIMIT_S
from tests.punctual.contract.records import FakeRecord


@dataclass
class Host:
    """A server on a port of its own, which answers when the test lets it."""

    url: str = ""
    now: int = 0
    most: int = 0
    taken: int = 0
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    posts: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.posts.append((await request.read(), dict(request.headers)))
        self.now += 1
        self.most = max(self.most, self.now)
        await self.answers.wait()
        self.now -= 1
        self.taken += 1
        return web.Response()


@asynccontextmanager
async def serving(*, answers: bool) -> AsyncIterator[Host]:
    host = Host()
    if answers:
        host.answers.set()
    made = web.Application()
    made.router.add_post("/", host.take)
    runner = web.AppRunner(made, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield host
    await runner.cleanup()


@asynccontextmanager
async def staged(path: Path, batch: int = FIRE_BATCH, /, **env: str) -> AsyncIterator[Stage]:
    async with Stage(path, 1, batch, DELAY_CALLBACKS="http://127.0.0.1:*", **env) as stage:
        try:
            yield stage
        finally:
            await stage.due.stop()


async def until(stage: Stage, condition: Callable[[], object]) -> None:
    """Fire until something has come about."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            stage.fire()
            await asyncio.sleep(0.002)


async def refuse(stage: Stage, url: str, count: int) -> None:
    """Refuse requests whose sender has set a failure callback."""
    records = [
        stage.logs[0].record(stage.clock.wall, delay_to="orders", delay_on_failure=url, delay_id=f"{url}{number}")
        for number in range(count)
    ]
    await stage.take(0, records)


@pytest.mark.core
async def test_each_host_has_its_own_room_and_all_together_a_bound(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(serving(answers=False)) for _ in range(20)]
        stage = await stack.enter_async_context(staged(tmp_path))
        for host in hosts[:2]:
            await refuse(stage, host.url, 50)
        stage.clock.pass_by(1)
        await until(stage, lambda: all(host.now == 4 for host in hosts[:2]))
        for host in hosts[2:]:
            await refuse(stage, host.url, 50)
        stage.clock.pass_by(1)
        await until(stage, lambda: sum(host.now for host in hosts) == 80)
        for host in hosts:
            host.answers.set()
        await until(stage, lambda: all(host.taken == 50 for host in hosts))
        await until(stage, lambda: not stage.partition.claims)

        assert max(host.most for host in hosts) == 4
        assert not list(stage.stores[0].rows())
        assert not stage.partition.in_flight.held_routes()
        assert not stage.due.http._posts._hosts._all


async def test_a_body_in_the_form_of_its_dialect_has_the_reason_in_a_header(tmp_path: Path) -> None:
    async with serving(answers=True) as host, staged(tmp_path, DELAY_INPUTS="posts=airtel") as stage:
        asked = f'{{"topic":"orders", "failurePostCallbackUrl":"{host.url}"}}'.encode()
        await stage.take(0, [FakeRecord([], None, asked, "posts", 0, 0, stage.clock.wall)])
        stage.clock.pass_by(1)
        await until(stage, lambda: host.taken)

        [(body, headers)] = host.posts
        assert (body, headers["delay-reason"]) == (asked, "malformed")
        assert (headers["Content-Type"], headers["Idempotency-Key"]) == ("application/json", "posts-0-0")


async def test_a_host_whose_last_callback_timed_out_gets_one_at_a_time_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.base.http.client.TIMEOUT_S", 0.05)
    async with serving(answers=False) as host, staged(tmp_path) as stage:
        await refuse(stage, host.url, 10)
        stage.clock.pass_by(1)
        hosts, name = stage.due.http._posts._hosts, host.url.removesuffix("/")
        await until(stage, lambda: host.most == 4)
        await until(stage, lambda: hosts.fails(name) and hosts._hosts[name].under_way == 1)
        assert hosts.full(name)
        host.answers.set()
        await until(stage, lambda: not hosts.fails(name))


async def test_messages_do_not_wait_for_callbacks_that_do_not_fit(tmp_path: Path) -> None:
    async with serving(answers=False) as host, staged(tmp_path, 2, DELAY_MAX_IN_FLIGHT="2") as stage:
        await refuse(stage, host.url, 50)
        await stage.schedule("a")
        stage.clock.pass_by(1)
        await until(stage, lambda: stage.sender.ids() == ["a"])

        assert host.most <= 4
        host.answers.set()
        await until(stage, lambda: host.taken == 50)
        assert stage.sender.ids() == ["a"]
