"""Bootstrap servers are tried in parallel: a bad one is named once, and delays no start."""

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from app.kafka.patches import side_by_side

GOOD, BAD = ("127.0.0.1", 9092), ("nohost.invalid", 9092)
CLIENTS = 3


class Connection:
    def close(self) -> None: ...


async def connect(host: str, port: int, **_: Any) -> Connection:
    """Connect as aiokafka does where there is no such name; elsewhere it has worked at once."""
    if host != GOOD[0]:
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    return Connection()


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_name_that_is_not_known_is_one_warning_and_no_error(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(side_by_side, "create_conn", connect)
    monkeypatch.setattr(side_by_side, "_unusable", set())

    async def begin() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        for _ in range(CLIENTS):
            assert await side_by_side._first_of([BAD, GOOD], {}) == GOOD
        async with asyncio.timeout(60):
            while side_by_side._ending:  # noqa: ASYNC110 - tasks
                await asyncio.sleep(0.01)
        gc.collect()
        await asyncio.sleep(0)

    _run(new_loop, begin())
    assert errors == []
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("bootstrap server nohost.invalid:9092 cannot be used: ")


def test_a_client_begins_with_the_server_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, servers = list[list[str]](), ["nohost.invalid:9092", "127.0.0.1:9092"]

    async def bootstrap(client: Any) -> None:
        begun.append(client._bootstrap_servers)

    monkeypatch.setattr(side_by_side, "create_conn", connect)
    monkeypatch.setattr(side_by_side, "_bootstrap", bootstrap)
    options = {f"_{name}": None for name in side_by_side._OPTIONS}
    client: Any = SimpleNamespace(_bootstrap_servers=servers, **options)
    _run(asyncio.new_event_loop, side_by_side._begin(client))

    assert (begun, client._bootstrap_servers) == ([["127.0.0.1:9092"]], servers)


def test_an_abandoned_client_leaves_no_connection_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: Any, **__: Any) -> Connection:
        await asyncio.sleep(3_600)
        return Connection()

    async def begin() -> None:
        monkeypatch.setattr(side_by_side, "create_conn", hang)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(side_by_side._first_of([GOOD, ("127.0.0.1", 9093)], {}), 0.05)
        assert len(asyncio.all_tasks()) == 1
        assert not side_by_side._ending

    _run(asyncio.new_event_loop, begin())


def _run(new_loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work)
