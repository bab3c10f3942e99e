"""A collector that does not answer delays no delivery."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.engine.traces import traces, traces_of
from app.settings.settings import Settings

_PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A collector that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        yield
    for thread in threading.enumerate():
        if thread.name == "traces":
            thread.join()


@pytest.mark.usefixtures("silent")
async def test_a_worker_ends_though_its_spans_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_CLOSE_S", 0.2)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    made = traces_of(Settings.from_env({}))
    assert made is not None
    owner = SimpleNamespace(claims={b"row": SimpleNamespace(headers=[("traceparent", _PARENT)])})
    made.sent(SimpleNamespace(route=(None, "orders", 0), rows=[(owner, b"row")], sent_ms=0))
    async with asyncio.timeout(5):
        await made.close()
    assert [thread for thread in threading.enumerate() if thread.name == "traces"]  # it waits for an answer still
