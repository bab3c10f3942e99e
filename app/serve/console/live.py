"""Server-sent events: every open page is notified at most once a second of a change, and then refreshes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from aiohttp import web

from app.base.listening.limits import network
from app.base.places import Places
from app.engine.reports.state import WorkerState
from app.serve.access.caller import HOLDS, caller_of
from app.serve.console.verdict import verdict
from app.serve.web.guard import client_address
from app.serve.web.problem import Problem
from app.serve.web.routes import missing_of, overview_of

EVERY_S: Final = 1.0
#: Each stream takes one of the web port's 256 connections; a user gets at most half of the streams that are left.
MOST: Final = 100
#: A comment is sent after this time without an event, because proxies close silent connections.
_SILENCE_S: Final = 15.0
#: The members that are not about messages.
_BARE: Final = ("ready", "at_ms")
_TOO_MANY: Final = (
    "live updates are off because too many pages are open: {all} of max {most}, {own} of them yours. "
    "This page shows the numbers from when it was loaded"
)


class LiveUpdates:
    """Notifies all pages of changes: one summary a second for all pages, and none without open pages."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._places = Places(MOST)
        #: Whether each stream gets the numbers of the whole installation, or only that something may have changed.
        self._listeners: dict[asyncio.Queue[bytes], bool] = {}
        self._task: asyncio.Task[None] | None = None

    async def stop(self, _web_app: web.Application) -> None:
        """End all streams."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for queue in self._listeners:
            _offer(queue, b"")

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer GET /api/v1/events: `changed` events with pending, overdue, next_due_ms and the verdict.

        Users who are bound to namespaces get no numbers. The stream ends when the user loses the permission.
        """
        caller = caller_of(request)
        holder = caller.login or network(client_address(request))
        if not self._places.take(holder):
            error = _TOO_MANY.format(all=len(self._places), most=MOST, own=self._places.held(holder))
            raise Problem("busy", error, headers={"Retry-After": "30"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        queue: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._listeners[queue] = not caller.bound
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._notify())
        try:
            await response.prepare(request)
            await response.write(b"retry: 3000\n\n")
            await self._send(response, queue, request.get(HOLDS, lambda: True))
        except (ConnectionError, asyncio.CancelledError):
            pass  # the page is gone, or the worker stops
        finally:
            self._listeners.pop(queue, None)
            self._places.leave(holder)
        return response

    async def _send(self, response: web.StreamResponse, queue: asyncio.Queue[bytes], holds: Callable[[], bool]) -> None:
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), _SILENCE_S)
            except TimeoutError:
                event = b": still here\n\n"
            if not event or not holds():
                return
            await response.write(event)

    async def _notify(self) -> None:
        while self._listeners:
            summary = self._summary()
            full, bare = _event(summary), _event({name: summary[name] for name in _BARE if name in summary})
            for queue, sees_all in self._listeners.items():
                _offer(queue, full if sees_all else bare)
            await asyncio.sleep(EVERY_S)

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


def _event(summary: dict[str, Any]) -> bytes:
    return b"event: changed\ndata: " + msgspec.json.encode(summary) + b"\n\n"


def _offer(queue: asyncio.Queue[bytes], event: bytes) -> None:
    """Put the newest event into a stream's queue; a slow reader misses the events between."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)
