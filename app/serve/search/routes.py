"""The routes that find pending messages, for users and, below /api/v1/local, for other workers."""

from collections.abc import Mapping

from aiohttp import web

from app.serve.access.caller import CALLER
from app.serve.search.filter import Filter, FilterError
from app.serve.search.page import Cursor, numbers
from app.serve.search.search import LOCAL, LONGEST_S, MOST_ROWS, Search
from app.serve.search.timeline import Timelines
from app.serve.search.timeline_counts import TimelineSpans
from app.serve.search.visibility import count_shown, filter_of, page_shown
from app.serve.web.answers import as_json
from app.serve.web.problem import Problem, checked
from punctual.contract.times import parse_time

_DEFAULT_LIMIT, _DEFAULT_S, _DIGITS = 50, 8.0, 18


def register(web_app: web.Application, search: Search) -> None:
    """Add the routes to an application that has not started; the search is closed with it."""
    routes = SearchRoutes(search)
    router = web_app.router
    router.add_get("/api/v1/messages", routes.page)
    router.add_get("/api/v1/messages/count", routes.count)
    router.add_get("/api/v1/timeline", routes.timeline)
    router.add_get(f"{LOCAL}/messages", routes.own_page)
    router.add_get(f"{LOCAL}/count", routes.own_count)
    router.add_get(f"{LOCAL}/message", routes.own_message)
    router.add_get(f"{LOCAL}/timeline", routes.own_timeline)
    web_app.on_cleanup.append(lambda _: search.close())


class SearchRoutes:
    """Reads parameters from URLs, and writes results and errors as JSON."""

    def __init__(self, search: Search) -> None:
        self._search, self._timelines = search, Timelines(search)

    def _filter(self, query: Mapping[str, str]) -> Filter:
        """Return another worker's filter; that worker has already checked the user's permissions."""
        return Filter.from_query(query, self._search.namespaces)

    @checked
    async def page(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/messages with the matches of a filter, by due time."""
        query, caller = request.query, request[CALLER]
        wanted, (cursor, limit) = filter_of(Filter, query, self._search.namespaces, caller), _part(query)
        whole = flag(query, "whole") and not caller.masked
        return as_json(page_shown(await self._search.page(wanted, cursor, limit, whole=whole), caller, whole=whole))

    @checked
    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/messages/count with the number of matches of a filter."""
        query, caller = request.query, request[CALLER]
        wanted = filter_of(Filter, query, self._search.namespaces, caller)
        return as_json(count_shown(await self._search.count(wanted, _seconds(query)), caller))

    @checked
    async def own_page(self, request: web.Request) -> web.Response:
        """Answer another worker with this worker's part of a page."""
        query = request.query
        cursor, limit = _part(query)
        only = numbers(query["partitions"]) if query.get("partitions") else None
        wanted, whole = self._filter(query), flag(query, "whole")
        return as_json(await self._search.own_page(wanted, cursor.place, limit, whole=whole, only=only))

    @checked
    async def own_count(self, request: web.Request) -> web.Response:
        """Answer another worker with this worker's part of a count."""
        query = request.query
        return as_json(await self._search.own_count(self._filter(query), _seconds(query)))

    async def own_message(self, request: web.Request) -> web.Response:
        """Answer another worker with a message of a partition that is served here."""
        id_ = request.query.get("id", "")
        if self._search.home(id_) not in self._search.served:
            raise Problem("not-ready", "this worker does not serve the partition of this id")
        row = self._search.own_message(id_, whole=flag(request.query, "whole"))
        if row is None:
            raise Problem("unknown-message", "not pending")
        return as_json(row)

    @checked
    async def timeline(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/timeline with the number of messages due in each span."""
        query, at_ms, caller = dict(request.query), self._search.now_ms(), request[CALLER]
        period = {name: query[name] for name in ("from", "to", "step") if query.get(name)}
        wanted = filter_of(Filter, {"namespace": query.get("namespace", "")}, self._search.namespaces, caller)
        others = {**period, "at": str(at_ms), **wanted.query()}
        return as_json(await self._timelines.timeline(_spans(query, at_ms), others, wanted.within))

    @checked
    async def own_timeline(self, request: web.Request) -> web.Response:
        """Answer another worker with this worker's part of a timeline; the request has the other worker's clock."""
        query = request.query
        within = self._filter({"namespace": query.get("namespace", "")}).within
        return as_json(await self._timelines.own_part(_spans(query, parse_time(query.get("at", ""))), within))


def _part(query: Mapping[str, str]) -> tuple[Cursor, int]:
    """Return the cursor after which a page begins, and the maximum number of its rows."""
    cursor = Cursor.parse(query["cursor"]) if query.get("cursor") else Cursor()
    return cursor, whole(query, "limit", _DEFAULT_LIMIT, MOST_ROWS)


def _spans(query: Mapping[str, str], at_ms: int) -> TimelineSpans:
    since, until, step = (query.get(name, "") for name in ("from", "to", "step"))
    if not since and not until:
        if step:
            raise FilterError("step needs from and to: the start and end time (epoch ms or RFC 3339)")
        return TimelineSpans.default(at_ms)
    if not since or not until:
        raise FilterError("give both from and to (epoch ms or RFC 3339), or neither")
    if step and not (step.isascii() and step.isdigit() and len(step) < _DIGITS):
        raise FilterError(f"step={step[:64]!r} must be whole milliseconds")
    return TimelineSpans.between(parse_time(since), parse_time(until), int(step) if step else None, at_ms)


def _seconds(query: Mapping[str, str]) -> float:
    return number(query, "seconds", _DEFAULT_S, LONGEST_S)


def number(query: Mapping[str, str], name: str, default: float, maximum: float) -> float:
    """Return a query parameter as a number, at most `maximum`. Raises FilterError."""
    text = query.get(name) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= maximum:
        raise FilterError(f"{name}={text[:64]!r} must be a number above 0, at most {maximum:g}")
    return number


def whole(query: Mapping[str, str], name: str, default: int, maximum: int) -> int:
    """Return a query parameter as a whole number of 1 or more, at most `maximum`. Raises FilterError."""
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS and 1 <= int(text) <= maximum):
        raise FilterError(f"{name}={text[:64]!r} must be a whole number from 1 to {maximum}")
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return whether a query parameter is set to yes."""
    return query.get(name, "") in ("1", "true", "yes")
