"""The doctor's findings over a running worker's API: examined on request, and kept for a minute."""

import asyncio
import os
from typing import Final

import msgspec
from aiohttp import web

from app.base.clock import Clock
from app.engine.engine import Engine
from app.ops.doctor.examination import Examination, examine
from app.ops.doctor.facts import ClockFacts
from app.serve.web.answers import as_json
from app.serve.web.problem import Problem

_KEPT_MS: Final = 60_000
#: The timeout of a request. An examination takes less than a second unless brokers are slow; then clients retry.
_PATIENCE_S: Final = 20.0


def register(web_app: web.Application, engine: Engine) -> None:
    """Add GET /api/v1/findings to an application that has not started yet."""
    findings = Examiner(engine)
    web_app.add_routes([web.get("/api/v1/findings", findings.show)])
    web_app.on_cleanup.append(findings.stop)


class Examiner:
    """Examines the installation at most once a minute, for any number of requests."""

    def __init__(self, engine: Engine) -> None:
        """Begin without an examination."""
        self._engine = engine
        self._last: Examination | None = None
        self._task: asyncio.Task[Examination] | None = None

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/findings; with `wait=0` at once, with `not-ready` if there is no examination yet."""
        if self._last is None or Clock.wall_ms() - self._last.at_ms >= _KEPT_MS:
            examination = await self._look(0.0 if request.query.get("wait") == "0" else _PATIENCE_S)
            if examination is None and self._last is None:
                raise Problem("not-ready", "the checks are still running. Try again in a moment")
        return as_json(msgspec.to_builtins(self._last))

    async def stop(self, _: web.Application) -> None:
        """Cancel a running examination."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self, patience_s: float) -> Examination | None:
        """Begin an examination, unless one is running, and wait at most `patience_s` for it."""
        task = self._task = self._task or asyncio.create_task(self._examine())
        await asyncio.wait([task], timeout=patience_s)
        if not task.done():
            return None
        if self._task is task:  # several requests may have waited for it
            self._task = None
        self._last = task.result()
        return self._last

    async def _examine(self) -> Examination:
        engine = self._engine
        clock = ClockFacts(engine.clock.offset_ms, engine.clock.jumps)
        return await examine(engine.settings, os.environ, reports=engine.reader.reports, clock=clock)
