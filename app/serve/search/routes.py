"""The addresses at which pending messages are found, for everyone and, below /api/v1/local, for other workers."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from app.serve.access.roles import ASKER
from app.serve.search.asked import count_shown, filter_of, id_of, row_shown, shown
from app.serve.search.between import only_workers
from app.serve.search.cursor import Cursor, numbers
from app.serve.search.filter import Filter, FilterError
from app.serve.search.page import Count, Page, Part
from app.serve.search.peers import PeerSilent
from app.serve.search.row import Row
from app.serve.search.scans import ScanFailed
from app.serve.search.search import LOCAL, LONGEST_S, MOST, Search
from app.serve.search.spans import Spans
from app.serve.search.timeline import Timeline, TimelinePart, Timelines
from app.serve.web import ids
from app.serve.web.answers import as_json
from punctual.contract.times import parse_time

_USUAL, _USUAL_S, _DIGITS = 50, 8.0, 18
_RETRY: Final = {"Retry-After": "2"}


def register(web_app: web.Application, search: Search) -> None:
    """Add the addresses to an application that has not started yet; what they start ends with it."""
    view = View(search)
    web_app.middlewares.append(only_workers(search.secret))
    web_app.add_routes(
        [
            web.get("/api/v1/messages", view.page),
            web.get("/api/v1/messages/count", view.count),
            web.get(f"/api/v1/messages/{ids.PLACE}", view.message),
            web.get("/api/v1/timeline", view.timeline),
            web.get(f"{LOCAL}/messages", view.own_page),
            web.get(f"{LOCAL}/count", view.own_count),
            web.get(f"{LOCAL}/message", view.own_message),
            web.get(f"{LOCAL}/timeline", view.own_timeline),
        ]
    )

    async def stop(_: web.Application) -> None:
        await search.close()

    web_app.on_cleanup.append(stop)


class View:
    """Reads questions from addresses, and writes answers and sentences as JSON."""

    def __init__(self, search: Search) -> None:
        """Answer by a search."""
        self._search, self._timelines = search, Timelines(search)

    def _filter(self, query: Mapping[str, str]) -> Filter:
        """Return another worker's filter: it has seen that whoever asks may look for that."""
        return Filter.from_query(query, self._search.namespaces)

    async def page(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/messages: pending messages that fit a filter, by due time."""
        query, asker = request.query, request[ASKER]

        async def ask() -> Page:
            wanted, (cursor, limit) = filter_of(query, self._search.namespaces, asker), _part(query)
            whole = _flag(query, "whole") and not asker.masked
            return shown(await self._search.page(wanted, cursor, limit, whole=whole), asker, whole=whole)

        return await _told(ask)

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/messages/count: how many fit a filter."""
        query, asker = request.query, request[ASKER]

        async def ask() -> Count:
            wanted = filter_of(query, self._search.namespaces, asker)
            return count_shown(await self._search.count(wanted, _seconds(query)), asker)

        return await _told(ask)

    async def message(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/messages/{id}: the pending message with an id."""
        said, whole, asker = ids.id_in(request), _flag(request.query, "whole"), request[ASKER]
        otherwise = f"no message with the id {said!r} is pending"
        try:
            id_ = id_of(said, self._search.namespaces, asker)
        except FilterError as error:
            return as_json({"error": str(error)}, 400)

        async def ask() -> Row | None:
            return row_shown(await self._search.message(id_, whole=whole), asker)

        if not _flag(request.query, "life"):
            return await _told(ask, otherwise)
        try:
            life = msgspec.to_builtins(await self._search.life(id_))
            row = await ask()
        except PeerSilent as error:
            return as_json({"error": str(error)}, 503, _RETRY)
        if row is None:
            return as_json({"error": otherwise, **life}, 404)
        return as_json({**msgspec.to_builtins(row), **life})

    async def own_page(self, request: web.Request) -> web.Response:
        """Answer another worker: this one's part of a page."""
        query = request.query
        whole = _flag(query, "whole")

        async def ask() -> Part:
            cursor, limit = _part(query)
            only = numbers(query["partitions"]) if query.get("partitions") else None
            return await self._search.own_page(self._filter(query), cursor.place, limit, whole=whole, only=only)

        return await _told(ask)

    async def own_count(self, request: web.Request) -> web.Response:
        """Answer another worker: this one's part of a count."""
        query = request.query
        return await _told(lambda: self._search.own_count(self._filter(query), _seconds(query)))

    async def own_message(self, request: web.Request) -> web.Response:
        """Answer another worker: a message that lives here."""
        id_ = request.query.get("id", "")
        if self._search.home(id_) not in self._search.served:
            return as_json({"error": "this worker does not serve the partition of this id"}, 503, _RETRY)
        row = self._search.own_message(id_, whole=_flag(request.query, "whole"))
        return as_json({"error": "not pending"}, 404) if row is None else as_json(row)

    async def timeline(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/timeline: how many messages are due when."""
        query, at_ms, asker = dict(request.query), self._search.now_ms(), request[ASKER]
        asked = {name: query[name] for name in ("from", "to", "step") if query.get(name)}

        async def ask() -> Timeline:
            wanted = filter_of({"namespace": query.get("namespace", "")}, self._search.namespaces, asker)
            others = {**asked, "at": str(at_ms), **wanted.query()}
            return await self._timelines.timeline(_spans(query, at_ms), others, wanted.within)

        return await _told(ask)

    async def own_timeline(self, request: web.Request) -> web.Response:
        """Answer another worker: this one's part of a timeline, by the other's clock."""
        query = request.query

        async def ask() -> TimelinePart:
            within = self._filter({"namespace": query.get("namespace", "")}).within
            return await self._timelines.own_part(_spans(query, parse_time(query.get("at", ""))), within)

        return await _told(ask)


async def _told(ask: Any, otherwise: str = "") -> web.Response:
    """Return what is answered to a question; sentences for what cannot be understood, found or reached."""
    try:
        found = await ask()
    except ValueError as error:
        return as_json({"error": str(error)}, 400)
    except (ScanFailed, PeerSilent) as error:
        return as_json({"error": str(error)}, 503, _RETRY)
    return as_json({"error": otherwise}, 404) if found is None else as_json(found)


def _part(query: Mapping[str, str]) -> tuple[Cursor, int]:
    """Return after which cursor a page begins, and how many rows it has."""
    cursor = Cursor.parse(query["cursor"]) if query.get("cursor") else Cursor()
    return cursor, whole(query, "limit", _USUAL, MOST)


def _spans(query: Mapping[str, str], at_ms: int) -> Spans:
    since, until, step = (query.get(name, "") for name in ("from", "to", "step"))
    if not since and not until:
        if step:
            raise FilterError("step needs from and to: the start and end time (epoch ms or RFC 3339)")
        return Spans.usual(at_ms)
    if not since or not until:
        raise FilterError("give both from and to (epoch ms or RFC 3339), or neither")
    if step and not (step.isascii() and step.isdigit() and len(step) < _DIGITS):
        raise FilterError(f"step={step[:64]!r} must be whole milliseconds")
    return Spans.between(parse_time(since), parse_time(until), int(step) if step else None, at_ms)


def _seconds(query: Mapping[str, str]) -> float:
    return number(query, "seconds", _USUAL_S, LONGEST_S)


def number(query: Mapping[str, str], name: str, usual: float, most: float) -> float:
    """Return a parameter that is a number, at most `most`. Raises FilterError."""
    text = query.get(name) or str(usual)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= most:
        raise FilterError(f"{name}={text[:64]!r} must be a number above 0, at most {most:g}")
    return number


def whole(query: Mapping[str, str], name: str, usual: int, most: int) -> int:
    """Return a parameter that is a whole number of 1 or more, at most `most`. Raises FilterError."""
    text = query.get(name) or str(usual)
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS and 1 <= int(text) <= most):
        raise FilterError(f"{name}={text[:64]!r} must be a whole number from 1 to {most}")
    return int(text)


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "") in ("1", "true", "yes")
