"""Server-sent events: every open page hears at most once a second that something has changed, and asks again."""

import asyncio
from contextlib import suppress
from typing import Any, Final

import msgspec
from aiohttp import web

from app.console.verdict import verdict
from app.web.answers import as_json
from app.web.overview import overview
from app.web.state import WorkerState

EVERY_S: Final = 1.0
#: Each takes a connection, of which the web port has 256.
MOST: Final = 100
#: A proxy that hears nothing for long ends the connection; a comment every so often is enough.
_SILENCE_S: Final = 15.0
_TOO_MANY: Final = "{most} pages are live already; this one shows the numbers of when it was loaded"


class Live:
    """Tells all pages what changes: one summary a second for all of them, and none while nobody listens."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._listeners: set[asyncio.Queue[bytes]] = set()
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
        """Answer GET /api/v1/events: `changed` events with pending, overdue, next_due_ms and the verdict."""
        if len(self._listeners) >= MOST:
            return as_json({"error": _TOO_MANY.format(most=MOST)}, 503, {"Retry-After": "30"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        queue: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._listeners.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tell())
        try:
            await response.prepare(request)
            await response.write(b"retry: 3000\n\n")
            await self._send(response, queue)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the page is gone, or the worker stops
        finally:
            self._listeners.discard(queue)
        return response

    async def _send(self, response: web.StreamResponse, queue: asyncio.Queue[bytes]) -> None:
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), _SILENCE_S)
            except TimeoutError:
                event = b": still here\n\n"
            if not event:
                return
            await response.write(event)

    async def _tell(self) -> None:
        while self._listeners:
            event = b"event: changed\ndata: " + msgspec.json.encode(self._summary()) + b"\n\n"
            for queue in self._listeners:
                _offer(queue, event)
            await asyncio.sleep(EVERY_S)

    def _summary(self) -> dict[str, Any]:
        state = self._state
        reason = state.ready_reason()
        if reason is not None or not state.reader.caught_up.is_set():
            return {"ready": False, "error": reason or "reading what the other workers have reported"}
        whole = overview(
            state.reader.reports, state.partitions, state.now_ms(), state.trouble, state.wanted(), state.queues()
        )
        found = verdict(msgspec.to_builtins(whole))
        return {
            "ready": True,
            "at_ms": whole.at_ms,
            "pending": whole.pending,
            "overdue": whole.overdue,
            "next_due_ms": whole.next_due_ms,
            "level": found.level,
            "verdict": f"{found.word}: {found.text}",
        }


def _offer(queue: asyncio.Queue[bytes], event: bytes) -> None:
    """Leave the newest event for a reader; one that is slow misses those between."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)
