"""A control that cannot mean anything is refused before anything is written."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from app.serve.access.caller import Caller
from app.serve.actions.actions import Actions
from app.serve.web.problem import Problem

NOW_MS = 1_800_000_000_000


async def test_controls_of_missing_destinations_and_past_times_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[object]()

    async def known(_: str) -> None: ...

    async def check(*_: object) -> None:
        raise Problem("unknown-destination", "there is no topic orders")

    async def write(*said: object) -> None:
        done.append(said)

    monkeypatch.setattr("app.serve.actions.actions._check_exists", check)
    clock = SimpleNamespace(wall_ms=lambda: NOW_MS)
    actions: Any = SimpleNamespace(
        _engine=SimpleNamespace(clock=clock), _known=known, audit=SimpleNamespace(record=write)
    )
    caller = Caller("ann", "admin")
    with pytest.raises(Problem, match="there is no topic orders"):
        await Actions.control(actions, caller, "pause", "orders", {}, paused=True)
    with pytest.raises(ValueError, match="which is in the past"):
        await Actions.control(
            actions, caller, "pause", "orders", {}, paused=True, until=datetime(2026, 1, 1, tzinfo=UTC)
        )
    assert not done
