"""The home page: whether deliveries are on time, the timeline of due messages, and the last hour."""

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from app.base.newest import Newest
from app.serve.access.caller import caller_of
from app.serve.console.api import JsonAnswer
from app.serve.console.pages import Pages
from app.serve.console.timeline_chart import timeline_chart

_STEPS_MS: Final = (1_000, 60_000, 3_600_000)
#: The page must load at once: a timeline that takes longer than _PATIENCE_S is shown by the next refresh, within a
#: second. If the last timeline is younger than _RECENT_S, the page waits only for _MOMENT_S, and then shows it.
_PATIENCE_S, _MOMENT_S, _RECENT_S = 0.05, 0.005, 10.0
#: The maximum timelines of zoomed spans that are counted at a time, fewer than the API's maximum.
_MOST: Final = 16
_MINUTES: Final = 60
#: The possible widths of the chart in minutes; there are few, so that the scale does not change each minute.
_STEPS_MINUTES: Final = (10, 15, 30, _MINUTES)
#: The maximum number of users' timelines and drawings that are cached.
_READERS: Final = 100
_LATER: Final = "due times are being counted; the chart appears here when they are ready"

#: The chart of the last hour, in the drawing's own units.
WIDTH: Final = 600
HEIGHT: Final = 120
_AIR: Final = 6
_STROKE: Final = 4


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One measure: its runs of points, interrupted by unknown values, and its newest value."""

    name: str
    runs: list[str]
    last: float | None


class LineChart(msgspec.Struct, frozen=True):
    """Two measures with the same scale and the same minutes."""

    lines: list[Line]
    most: float
    minutes: int


class Drawings:
    """Caches the last drawing for each user, because drawing takes most of a page's time."""

    def __init__(self) -> None:
        self._drawings = Newest[object, tuple[JsonAnswer, str]](_READERS)

    def draw(self, reader: object, answer: JsonAnswer, caller: Callable[[], str]) -> str:
        """Return the drawing of a response; `caller`, a part of a template, draws it if the response has changed."""
        cached = self._drawings.get(reader)
        drawing = cached[1] if cached is not None and cached[0] == answer else caller()
        self._drawings[reader] = (answer, drawing)
        return drawing


class HomePage:
    """Answers GET /."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._timelines = Newest[object, tuple[float, JsonAnswer]](_READERS)
        self._tasks: dict[object, asyncio.Task[JsonAnswer]] = {}
        self._drawings = Drawings()

    async def show(self, request: web.Request) -> web.Response:
        """Answer GET / with the overview, or the user's namespaces; with `from` and `to`, that span's timeline."""
        zoom = {name: request.query[name] for name in ("from", "to", "step") if request.query.get(name, "").isdecimal()}
        if not zoom.keys() >= {"from", "to"}:
            zoom = {}
        more: dict[str, Any] = {}
        if caller_of(request).bound:  # for users who are bound to namespaces
            due, overview = await self._timeline(request, zoom), await self._pages.overview(request)
            more["quotas"] = any(namespace["rate_per_s"] for namespace in overview.get("namespaces", []))
        else:
            api = self._pages.api(request)
            due, history = await asyncio.gather(self._timeline(request, zoom), api.get("/history"))
            overview = await api.get("/overview")
            more |= {"history": history, "charts": _charts(history)}
        return await self._pages.show(
            request,
            "own.html" if caller_of(request).bound else "home.html",
            overview=overview,
            live=True,
            due=due,
            timeline=lambda: timeline_chart(due.get("buckets", []), overview.get("at_ms", 0)),
            zoom=zoom,
            bar_url=bar_url,
            draw=partial(self._drawings.draw, _reader(request, zoom), due),  # caches the result of its `call` block
            **more,
        )

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
        self._timelines[reader] = (asyncio.get_running_loop().time(), task.result())


def _reader(request: web.Request, zoom: dict[str, str]) -> object:
    return caller_of(request), *zoom.items()


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
    padding: list[float | None] = [None] * (width - len(minutes))
    return line_chart(
        {text.strip("_"): padding + [minute.get(name) for minute in minutes] for text, name in names.items()}
    )


def line_chart(measures: dict[str, Sequence[float | None]]) -> LineChart:
    """Return the chart of `measures`, the oldest value first; None is a minute without a value."""
    most = max((value for values in measures.values() for value in values if value is not None), default=0.0)
    minutes = max(map(len, measures.values()), default=0)
    lines = [Line(name=name, runs=_runs(values, most), last=_last(values)) for name, values in measures.items()]
    return LineChart(lines, most, minutes)


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _runs(values: Sequence[float | None], most: float) -> list[str]:
    step = WIDTH / max(1, len(values) - 1)
    runs: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
            continue
        y = HEIGHT - _AIR - (value / most if most else 0) * (HEIGHT - 2 * _AIR)
        runs[-1].append(f"{index * step:.1f},{y:.1f}")
    # A single minute between gaps would be an invisible point: it becomes a short stroke.
    return [" ".join(run if len(run) > 1 else _stroke(run[0])) for run in runs if run]


def _stroke(point: str) -> list[str]:
    x, _, y = point.partition(",")
    left = min(float(x), WIDTH - _STROKE)
    return [f"{left:.1f},{y}", f"{left + _STROKE:.1f},{y}"]
