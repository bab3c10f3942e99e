"""The last hour, minute by minute: messages in and out, and their lateness, from the reports of all workers."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.web.answers import as_json
from app.serve.web.overview import overview

_EVERY_S: Final = 60.0
_KEPT: Final = 60
#: Our own topics in positions, next to the inputs: their messages were already counted when they came in.
_AGAIN: Final = ("forwards", "cold")


class Minute(msgspec.Struct, frozen=True, kw_only=True, rename={"in_per_s": "in", "out_per_s": "out"}):
    """A minute that ended at `at_ms` (epoch ms): requests and commands read, and messages delivered, per second.

    The lateness of deliveries is in milliseconds; None if there were none, or above the highest bound.
    """

    at_ms: int
    in_per_s: float
    out_per_s: float
    p50_ms: float | None
    p99_ms: float | None


class History(msgspec.Struct, kw_only=True):
    """The last hour, minute by minute."""

    at_ms: int
    minutes: list[Minute]


class LastHour:
    """The minutes since this worker's start, at most an hour."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._minutes: deque[Minute] = deque(maxlen=_KEPT)
        self._read: dict[tuple[int, str], int] | None = None
        self._at_ms = 0

    def look(self) -> None:
        """Add the minute that is over; the first call only begins a minute."""
        state, now_ms = self._state, self._state.now_ms()
        if not state.reader.caught_up.is_set():
            return
        again = {f"{state.app_id}-{name}" for name in _AGAIN}
        whole = overview(state.reader.reports, state.partitions, now_ms)
        read = {
            (partition.partition, topic): offset
            for partition in whole.partitions
            for topic, offset in (partition.positions or {}).items()
            if topic not in again
        }
        if self._read is not None and now_ms > self._at_ms:
            late = whole.lateness
            seconds = (now_ms - self._at_ms) / 1_000
            # A new position counts from the next minute on.
            arrived = sum(max(0, offset - self._read.get(place, offset)) for place, offset in read.items())
            rates = {"in_per_s": round(arrived / seconds, 3), "out_per_s": round(late.count / _EVERY_S, 3)}
            self._minutes.append(Minute(at_ms=now_ms, p50_ms=late.p50_ms, p99_ms=late.p99_ms, **rates))
        self._read, self._at_ms = read, now_ms

    async def show(self, _request: web.Request) -> web.Response:
        """Answer GET /api/v1/history with the minutes."""
        return as_json(History(at_ms=self._state.now_ms(), minutes=list(self._minutes)))


def register(web_app: web.Application, state: WorkerState) -> None:
    """Add GET /api/v1/history to an application that has not started; minutes are recorded while it runs."""
    last_hour = LastHour(state)

    async def follow() -> None:
        while True:
            last_hour.look()
            await asyncio.sleep(_EVERY_S)

    async def run(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(follow())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    web_app.cleanup_ctx.append(run)
    web_app.add_routes([web.get("/api/v1/history", last_hour.show)])
