"""Where an id stands in an address: in the path, or in the query where the path cannot have it."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import web

#: The part of a route that is an id: any characters, line breaks too.
PLACE: Final = "{id:(?s:.+)}"
#: In place of an id: the parameter `id` has it.
IN_QUERY: Final = "-"
#: Browsers and proxies take the first two for directories, and there is an address of the name of the third.
_NOT_IN_A_PATH: Final = frozenset({".", "..", "count", IN_QUERY})


def id_in(request: web.Request) -> str:
    """Return the id that an address has."""
    said = request.match_info["id"]
    return request.query.get("id", said) if said == IN_QUERY else said


def address(messages: str, id_: str, rest: str = "", query: Mapping[str, str] | None = None) -> str:
    """Return the address of an id below that of all messages; `rest` follows it in the path."""
    in_query = id_ in _NOT_IN_A_PATH
    given = ({"id": id_} if in_query else {}) | dict(query or {})
    path = f"{messages}/{IN_QUERY if in_query else quote(id_, safe='')}{rest}"
    return f"{path}?{urlencode(given)}" if given else path
