"""The routes that find dead letters: every worker finds all."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from app.base.places import WHO, NoPlace, Places
from app.serve.access.caller import CALLER, Caller
from app.serve.dead_letters.dead_letter import DeadLetter, masked, namespace_of, without_secrets
from app.serve.dead_letters.dead_letters import MOST_ROWS, DeadLetters, Unreadable
from app.serve.dead_letters.filter import DeadLetterFilter
from app.serve.search.pending import texted
from app.serve.search.routes import number, whole
from app.serve.search.search import LONGEST_S
from app.serve.search.visibility import check_url, namespaces_within, own_namespaces
from app.serve.web.answers import as_json
from app.serve.web.problem import RETRY_AFTER, Problem
from punctual.contract.namespaces import Namespaces

#: The URL pattern of a dead letter's partition and offset.
PLACE: Final = r"{partition:\d{1,9}}-{offset:\d{1,18}}"
GONE: Final = "dead letter not found; dead letters are kept for 30 days"
_DEFAULT_LIMIT, _DEFAULT_S = 50, 8.0
#: The maximum requests at a time: each reads for some seconds, a count for up to a minute.
_MOST: Final = 32


def register(web_app: web.Application, dead_letters: DeadLetters, learn: Callable[[], Awaitable[Any]]) -> None:
    """Add the routes to an application that has not started; `learn` reads which dead letters were sent again."""
    routes = DeadLetterRoutes(dead_letters, learn)
    web_app.add_routes(
        [
            web.get("/api/v1/dead-letters", routes.page),
            web.get("/api/v1/dead-letters/count", routes.count),
            web.get(f"/api/v1/dead-letters/{PLACE}", routes.one),
        ]
    )


class DeadLetterRoutes:
    """Reads parameters from URLs, and writes results and errors as JSON."""

    def __init__(self, dead_letters: DeadLetters, learn: Callable[[], Awaitable[Any]]) -> None:
        """Return dead letters from `dead_letters`, after `learn` has read which were sent again."""
        self._dead_letters, self._learn, self._places = dead_letters, learn, Places(_MOST)

    async def page(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/dead-letters with the matches of a filter, the newest first."""
        query, caller = request.query, request[CALLER]

        async def ask() -> Any:
            limit = whole(query, "limit", _DEFAULT_LIMIT, MOST_ROWS)
            wanted = filter_of(query, self._dead_letters.namespaces, caller)
            page = await self._dead_letters.page(wanted, query.get("cursor", ""), limit)
            rows = [shown(one, caller) for one in page.rows]
            looked_at = len(rows) if caller.bound else page.looked_at
            return msgspec.structs.asdict(page) | {"rows": rows, "looked_at": looked_at}

        return await self._answered(ask)

    async def count(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/dead-letters/count with the number of matches of a filter."""
        query, caller = request.query, request[CALLER]

        async def ask() -> Any:
            seconds = number(query, "seconds", _DEFAULT_S, LONGEST_S)
            wanted = filter_of(query, self._dead_letters.namespaces, caller)
            count = await self._dead_letters.count(wanted, seconds)
            return msgspec.structs.replace(count, looked_at=count.matching) if caller.bound else count

        return await self._answered(ask)

    async def one(self, request: web.Request) -> web.Response:
        """Answer GET /api/v1/dead-letters/{partition}-{offset} with the complete dead letter."""
        partition, offset = (int(request.match_info[name]) for name in ("partition", "offset"))

        async def ask() -> Any:
            found = await own_one(self._dead_letters, partition, offset, request[CALLER])
            return None if found is None else shown(found, request[CALLER])

        return await self._answered(ask)

    async def _answered(self, ask: Callable[[], Awaitable[Any]]) -> web.Response:
        try:
            with self._places.one(WHO.get()):
                await self._learn()
                found = await ask()
        except NoPlace:
            sentence = f"{len(self._places)} other requests are reading dead letters here. Try again soon"
            raise Problem("busy", sentence, headers=RETRY_AFTER) from None
        except ValueError as error:
            raise Problem("invalid-parameter", str(error)) from error
        except Unreadable as error:
            raise Problem("kafka-unavailable", str(error), headers=RETRY_AFTER) from error
        if found is None:
            raise Problem("unknown-dead-letter", GONE)
        return as_json(found)


def filter_of(query: Mapping[str, str], namespaces: Namespaces, caller: Caller) -> DeadLetterFilter:
    """Return the filter in a URL, limited to the namespaces of `caller`. Raises FilterError."""
    own = own_namespaces(namespaces, caller)
    wanted = DeadLetterFilter.from_query(query, own)
    check_url(wanted.to, caller)
    return msgspec.structs.replace(wanted, within=namespaces_within(wanted.within, own, caller))


async def own_one(dead_letters: DeadLetters, partition: int, offset: int, caller: Caller) -> DeadLetter | None:
    """Return the complete dead letter at an offset; None if `caller` may not see its namespace. Raises Unreadable."""
    found = await dead_letters.one(partition, offset)
    if found is None or caller.namespaces is None:
        return found
    return found if namespace_of(dead_letters.namespaces, found) in caller.namespaces else None


def shown(one: DeadLetter, caller: Caller) -> dict[str, Any]:
    """Return the parts of a dead letter that `caller` may see, with bytes as text or base64."""
    bare = without_secrets(one)
    seen = masked(bare) if caller.masked else bare
    return texted(seen, seen.key, seen.value, seen.headers)
