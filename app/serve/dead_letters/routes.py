"""The routes that find dead letters: every worker finds all."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from app.base.places import WHO, NoPlace, Places
from app.serve.access.caller import CALLER, Caller
from app.serve.dead_letters.dead_letter import DeadLetter, DeadLetterFilter, masked, namespace_of, without_secrets
from app.serve.dead_letters.dead_letters import MOST_ROWS, DeadLetters
from app.serve.search.pending import shown as text_of
from app.serve.search.routes import number, whole
from app.serve.search.search import LONGEST_S
from app.serve.search.visibility import filter_of, sees
from app.serve.web.answers import as_json
from app.serve.web.problem import Problem, checked

#: The URL pattern of a dead letter's partition and offset.
PLACE: Final = r"{partition:\d{1,9}}-{offset:\d{1,18}}"
_DEFAULT_LIMIT, _DEFAULT_S = 50, 8.0
#: The maximum requests at a time: each reads for some seconds, a count for up to a minute.
_MOST: Final = 32


def register(web_app: web.Application, dead_letters: DeadLetters, learn: Callable[[], Awaitable[Any]]) -> None:
    """Add the routes to an application that has not started; `learn` reads which dead letters were sent again."""
    routes = DeadLetterRoutes(dead_letters, learn)
    router = web_app.router
    router.add_get("/api/v1/dead-letters", routes.page)
    router.add_get("/api/v1/dead-letters/count", routes.count)
    router.add_get(f"/api/v1/dead-letters/{PLACE}", routes.one)


class DeadLetterRoutes:
    """Reads parameters from URLs, and writes results and errors as JSON."""

    def __init__(self, dead_letters: DeadLetters, learn: Callable[[], Awaitable[Any]]) -> None:
        self._dead_letters, self._learn, self._places = dead_letters, learn, Places(_MOST)

    @checked
    async def page(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/dead-letters with the matches of a filter, the newest first."""
        query, caller = request.query, request[CALLER]
        async with self._read():
            limit = whole(query, "limit", _DEFAULT_LIMIT, MOST_ROWS)
            wanted = filter_of(DeadLetterFilter, query, self._dead_letters.namespaces, caller)
            page = await self._dead_letters.page(wanted, query.get("cursor", ""), limit)
        rows = [shown(one, caller) for one in page.rows]
        looked_at = len(rows) if caller.bound else page.looked_at
        return as_json(msgspec.structs.asdict(page) | {"rows": rows, "looked_at": looked_at})

    @checked
    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/dead-letters/count with the number of matches of a filter."""
        query, caller = request.query, request[CALLER]
        async with self._read():
            seconds = number(query, "seconds", _DEFAULT_S, LONGEST_S)
            wanted = filter_of(DeadLetterFilter, query, self._dead_letters.namespaces, caller)
            count = await self._dead_letters.count(wanted, seconds)
        return as_json(msgspec.structs.replace(count, looked_at=count.matching) if caller.bound else count)

    async def one(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/dead-letters/{partition}-{offset} with the complete dead letter."""
        async with self._read():
            letter = await own_one(self._dead_letters, request)
        return as_json(shown(letter, request[CALLER]))

    @contextlib.asynccontextmanager
    async def _read(self) -> AsyncIterator[None]:
        """Read which dead letters were sent again, and limit the requests at a time. Raises Problem."""
        try:
            with self._places.one(WHO.get()):
                await self._learn()
                yield
        except NoPlace:
            sentence = f"{len(self._places)} other requests are reading dead letters here. Try again soon"
            raise Problem("busy", sentence) from None


async def own_one(dead_letters: DeadLetters, request: web.Request) -> DeadLetter:
    """Return the complete dead letter in a request's path. Raises Problem if there is none.

    A dead letter of a namespace that the caller may not see is missing.
    """
    partition, offset = (int(request.match_info[name]) for name in ("partition", "offset"))
    letter, caller = await dead_letters.one(partition, offset), request[CALLER]
    if letter is None or not sees(caller, [namespace_of(dead_letters.namespaces, letter)]):
        raise Problem("unknown-dead-letter", "dead letter not found; dead letters are kept for 30 days")
    return letter


def shown(one: DeadLetter, caller: Caller) -> dict[str, Any]:
    """Return the parts of a dead letter that `caller` may see, with bytes as text or base64."""
    bare = without_secrets(one)
    seen = masked(bare) if caller.masked else bare
    texts = {"key": text_of(seen.key), "value": text_of(seen.value)}
    return msgspec.structs.asdict(seen) | texts | {"headers": [(name, text_of(raw)) for name, raw in seen.headers]}
