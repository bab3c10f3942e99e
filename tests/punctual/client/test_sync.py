"""The client without an event loop: each call returns, even if the client is closed during the call."""

import asyncio
import subprocess
import sys
import threading
import time
from datetime import timedelta
from typing import Any, Final

import pytest

from punctual import ClientClosedError, DelayClient, DelayError, NotAcknowledgedError, SyncDelayClient
from tests.harness.waiting import LIMIT_S, PROGRAM_S

_FORK: Final = """
import os, signal, warnings
from datetime import timedelta
from punctual import ClientClosedError, DelayClient, SyncDelayClient

# From 3.12 on, Python warns about a fork while threads run, and this test forks while threads run.
warnings.filterwarnings("ignore", "This process", DeprecationWarning)

async def start(_): pass

DelayClient.start = start
client = SyncDelayClient("127.0.0.1:1")
client.start()
child = os.fork()
if child == 0:
    signal.alarm(1)
    for call in (client.start, lambda: client.delay("orders", "one", after=timedelta(hours=1)), client.start):
        try:
            call()
        except ClientClosedError as error:
            print(error, flush=True)
        client.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
client.close()
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> SyncDelayClient:
    """Return a client whose connection sends no request; each call takes a moment."""

    async def nothing(*_: object) -> None:
        await asyncio.sleep(0)

    async def delay(*_: object, **__: object) -> str:
        await asyncio.sleep(0.001)
        return "r-1"

    for name, told in (("start", nothing), ("aclose", nothing), ("delay", delay)):
        monkeypatch.setattr(DelayClient, name, told)
    return SyncDelayClient("127.0.0.1:1")


def test_a_client_that_was_opened_before_a_fork_says_so() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    sentence = (
        "This client was opened in another process, before a fork: create a new SyncDelayClient(...) in this process."
    )
    assert ended.stdout.splitlines() == [sentence] * 3


def test_a_call_that_meets_the_end_of_the_client_comes_back(
    client: SyncDelayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    give, closer = asyncio.run_coroutine_threadsafe, threading.current_thread()
    beyond, met = list[BaseException](), threading.Event()

    def slowly(*given: Any) -> Any:
        if threading.current_thread() is not closer:
            met.set()
            time.sleep(0.002)
        return give(*given)

    def calls() -> None:
        try:
            while True:
                assert client.delay("orders", "one", after=timedelta(hours=1)) == "r-1"
        except DelayError:
            pass
        except BaseException as error:  # noqa: BLE001 - whatever it is
            beyond.append(error)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", slowly)
    for _ in range(20):
        client.start()
        caller = threading.Thread(target=calls, daemon=True)
        caller.start()
        met.wait(LIMIT_S)
        client.close()
        caller.join(LIMIT_S)
        met.clear()
        assert not caller.is_alive()
    assert beyond == []


def test_a_call_that_does_not_end_is_over_with_the_client(
    client: SyncDelayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, found = threading.Event(), list[BaseException]()

    async def delay(*_: object, **__: object) -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    def call() -> None:
        try:
            client.delay("orders", "one", after=timedelta(hours=1))
        except BaseException as error:  # noqa: BLE001 - whatever it is
            found.append(error)

    monkeypatch.setattr(DelayClient, "delay", delay)
    client.start()
    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    assert begun.wait(LIMIT_S)
    client.close()
    caller.join(LIMIT_S)
    assert [type(error) for error in found] == [NotAcknowledgedError]
    with pytest.raises(ClientClosedError, match="is not open"):
        client.cancel("r-1")
