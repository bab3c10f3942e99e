"""Server-sent events: every open page is notified at most once a second of a change, and then refreshes."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from aiohttp import web

from app.base.listening.limits import network
from app.base.places import NoPlace, Places
from app.engine.reports.state import WorkerState
from app.serve.access.caller import HOLDS, caller_of
from app.serve.console.verdict import verdict
from app.serve.web.guard import client_address
from app.serve.web.problem import Problem
from app.serve.web.routes import missing_of, overview_of

EVERY_S: Final = 1.0
#: Each stream takes one of the web port's 256 connections; a user gets at most half of the streams that are left.
MOST: Final = 100
#: The members that are not about messages.
_BARE: Final = ("ready", "at_ms")
_TOO_MANY: Final = (
    "live updates are off because too many pages are open: {all} of max {most}, {own} of them yours. "
    "This page shows the numbers from when it was loaded"
)


class LiveUpdates:
    """Notifies all pages of changes; pages share their summaries, and without open pages there are none."""

    def __init__(self, state: WorkerState) -> None:
        self._state, self._places, self._stopped = state, Places(MOST), asyncio.Event()
        self._latest, self._made_s = dict[str, Any](), -math.inf

    async def stop(self, _web_app: web.Application) -> None:
        """End all streams."""
        self._stopped.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/events: `changed` events with pending, overdue, next_due_ms and the verdict.

        Users who are bound to namespaces get no numbers. The stream ends when the user loses the permission.
        """
        caller = caller_of(request)
        holder = caller.login or network(client_address(request))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        try:
            with self._places.one(holder), suppress(ConnectionError, asyncio.CancelledError):  # the page is gone
                await response.prepare(request)
                await response.write(b"retry: 3000\n\n")
                await self._send(response, bare=caller.bound, holds=request.get(HOLDS, lambda: True))
        except NoPlace:
            error = _TOO_MANY.format(all=len(self._places), most=MOST, own=self._places.held(holder))
            raise Problem("busy", error, headers={"Retry-After": "30"}) from None
        return response

    async def _send(self, response: web.StreamResponse, *, bare: bool, holds: Callable[[], bool]) -> None:
        """Send an event each second, until the user loses the permission or the worker stops."""
        while holds() and not self._stopped.is_set():
            summary = self._summary_now()
            if bare:
                summary = {name: summary[name] for name in _BARE if name in summary}
            await response.write(b"event: changed\ndata: " + msgspec.json.encode(summary) + b"\n\n")
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._stopped.wait()

    def _summary_now(self) -> dict[str, Any]:
        """Return the newest summary, which is younger than any page's last event."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._made_s >= EVERY_S / 2:
            self._latest, self._made_s = self._summary(), now_s
        return self._latest

    def _summary(self) -> dict[str, Any]:
        state = self._state
        missing = missing_of(state)
        if missing is not None:
            return {"ready": False, "detail": missing}
        overview = overview_of(state)
        status = verdict(msgspec.to_builtins(overview))
        return {
            "ready": True,
            "at_ms": overview.at_ms,
            "pending": overview.pending,
            "overdue": overview.overdue,
            "next_due_ms": overview.next_due_ms,
            "level": status.level,
            "verdict": f"{status.word}: {status.text}",
        }
