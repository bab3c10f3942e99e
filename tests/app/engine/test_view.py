"""The health that a worker reports, beyond being ready."""

from types import SimpleNamespace
from typing import Any

from app.engine.view import EngineView


def test_a_worker_that_cannot_write_is_not_healthy() -> None:
    view: Any = object.__new__(EngineView)
    why = ["the brokers have not confirmed a write for 12 s", None]
    ownership = SimpleNamespace(generation=1, partitions={})
    view.parts = SimpleNamespace(ownership=ownership, standstill=SimpleNamespace(reason=lambda: why[0]))
    assert (view.ready_reason(), view.health_reason()) == (None, why[0])

    why.pop(0)
    assert view.health_reason() is None
    view.parts = None
    assert view.health_reason() == "starting: waiting for Kafka"
