"""The home page: whether deliveries are on time, the timeline of due messages, and the last hour."""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web

from app.serve.access.caller import ANYBODY, CALLER
from app.serve.console.api import JsonAnswer
from app.serve.console.line_chart import LineChart, line_chart
from app.serve.console.pages import Pages
from app.serve.console.timeline_chart import timeline_chart

_STEPS_MS: Final = (1_000, 60_000, 3_600_000)
#: The page must load at once: a timeline that takes longer than _PATIENCE_S is shown by the next refresh, within a
#: second. If the last timeline is younger than _LATELY_S, the page waits only for _MOMENT_S, and then shows it.
_PATIENCE_S, _MOMENT_S, _RECENT_S = 0.05, 0.005, 10.0
#: The maximum timelines of zoomed spans that are counted at a time, fewer than the API's maximum.
_MOST: Final = 16
_MINUTES: Final = 60
#: The possible widths of the chart in minutes; there are few, so that the scale does not change each minute.
_STEPS_MINUTES: Final = (10, 15, 30, _MINUTES)
#: The maximum number of users' timelines and drawings that are cached.
_READERS: Final = 100
_LATER: Final = "due times are being counted; the chart appears here when they are ready"

_Value = TypeVar("_Value")


class Readers(dict[object, _Value]):
    """A cache by user and request, of the last hundred."""

    def keep(self, reader: object, value: _Value) -> None:
        """Store a user's value, and forget the oldest one beyond the maximum."""
        self.pop(reader, None)
        self[reader] = value
        if len(self) > _READERS:
            del self[next(iter(self))]


class Drawings:
    """Caches the last drawing for each user, because drawing takes most of a page's time."""

    def __init__(self) -> None:
        self._drawings = Readers[tuple[JsonAnswer, str]]()

    def draw(self, reader: object, answer: JsonAnswer, caller: Callable[[], str]) -> str:
        """Return the drawing of a response; `caller`, a part of a template, draws it if the response has changed."""
        cached = self._drawings.get(reader)
        drawing = cached[1] if cached is not None and cached[0] == answer else caller()
        self._drawings.keep(reader, (answer, drawing))
        return drawing


class HomePage:
    """Answers GET /."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._timelines = Readers[tuple[float, JsonAnswer]]()
        self._tasks: dict[object, asyncio.Task[JsonAnswer]] = {}
        self._drawings = Drawings()

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET / with the overview; with `from` and `to`, the timeline has only that span."""
        zoom = {name: request.query[name] for name in ("from", "to", "step") if request.query.get(name, "").isdecimal()}
        if not zoom.keys() >= {"from", "to"}:
            zoom = {}
        if request.get(CALLER, ANYBODY).bound:
            return await self._bound(request, zoom)
        api = self._pages.api(request)
        due, history = await asyncio.gather(self._timeline(request, zoom), api.get("/history"))
        overview = await api.get("/overview")
        return await self._pages.show(
            request,
            "home.html",
            overview=overview,
            live=True,
            **self._chart(request, zoom, due, overview),
            history=history,
            charts=_charts(history),
        )

    async def _bound(self, request: web.Request, zoom: dict[str, str]) -> web.Response:
        """Answer a user who is bound to namespaces: the namespaces, and their timeline."""
        due, overview = await self._timeline(request, zoom), await self._pages.overview(request)
        return await self._pages.show(
            request,
            "own.html",
            overview=overview,
            live=True,
            **self._chart(request, zoom, due, overview),
            quotas=any(namespace["rate_per_s"] for namespace in overview.get("namespaces", [])),
        )

    def _chart(
        self, request: web.Request, zoom: dict[str, str], due: JsonAnswer, overview: JsonAnswer
    ) -> dict[str, Any]:
        """Return the variables of due.html; `draw` caches the result of its `call` block."""
        return {
            "due": due,
            "timeline": lambda: timeline_chart(due.get("buckets", []), overview.get("at_ms", 0)),
            "zoom": zoom,
            "bar_url": bar_url,
            "draw": partial(self._drawings.draw, _reader(request, zoom), due),
        }

    async def _timeline(self, request: web.Request, zoom: dict[str, str]) -> JsonAnswer:
        """Return the timeline if it is ready at once, else the user's last one."""
        reader = _reader(request, zoom)
        last_s, last = self._timelines.get(reader, (-math.inf, JsonAnswer(202, {"later": _LATER})))
        task = self._tasks.get(reader)
        if task is None:
            if zoom and len(self._tasks) >= _MOST:
                return last  # a later refresh asks, when others have their results
            task = asyncio.create_task(self._pages.api(request).get("/timeline", zoom))
            self._tasks[reader] = task
            task.add_done_callback(lambda finished: self._keep_result(reader, finished))
        is_recent = asyncio.get_running_loop().time() - last_s < _RECENT_S
        await asyncio.wait([task], timeout=_MOMENT_S if is_recent else _PATIENCE_S)
        return task.result() if task.done() else last

    def _keep_result(self, reader: object, task: asyncio.Task[JsonAnswer]) -> None:
        del self._tasks[reader]
        if task.cancelled() or task.exception() is not None:
            return
        self._timelines.keep(reader, (asyncio.get_running_loop().time(), task.result()))


def _reader(request: web.Request, zoom: dict[str, str]) -> object:
    """Return the key of a user and a span."""
    return request.get(CALLER, ANYBODY), *zoom.items()


def bar_url(from_ms: int, to_ms: int) -> str:
    """Return the URL of a bar: its span in finer steps, or the messages of its second."""
    span = to_ms - from_ms
    if span <= _STEPS_MS[0]:
        return f"/find?due_from={from_ms}&due_to={to_ms - 1}"
    step = next((step for step in reversed(_STEPS_MS) if span >= step * 10), _STEPS_MS[0])
    while span / step > 120:  # noqa: PLR2004 - more bars than that are too thin to see
        step *= 2
    return f"/?from={from_ms}&to={to_ms}&step={step}"


def _charts(history: JsonAnswer) -> dict[str, LineChart | None]:
    minutes: list[dict[str, Any]] = history.get("minutes", [])
    if not minutes:
        return {"rates": None, "lateness": None}
    return {"rates": _chart(minutes, in_="in", out="out"), "lateness": _chart(minutes, p50="p50_ms", p99="p99_ms")}


def _chart(minutes: list[dict[str, Any]], **names: str) -> LineChart:
    """Return the chart of an hour, the newest minute last; a new worker's chart is shorter."""
    width = next((step for step in _STEPS_MINUTES if len(minutes) <= step), _MINUTES)
    padding = [None] * (width - len(minutes))
    return line_chart(
        {text.strip("_"): padding + [_value(minute, name) for minute in minutes] for text, name in names.items()}
    )


def _value(minute: dict[str, Any], name: str) -> float | None:
    value = minute.get(name)
    return None if value is None else float(value)
