"""The place of a message ID in a URL: in the path, or in the query if the path cannot have it."""

from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import web

#: The part of a route that is an ID: any characters, line breaks too.
PLACE: Final = "{id:(?s:.+)}"
#: The path has this in place of an ID that is in the query parameter `id`.
IN_QUERY: Final = "-"
#: Browsers and proxies treat the first two as directories, and the third is the path of another route.
_NOT_IN_A_PATH: Final = frozenset({".", "..", "count", IN_QUERY})


def id_in(request: web.Request) -> str:
    """Return the ID in a request's URL."""
    said = request.match_info["id"]
    return request.query.get("id", said) if said == IN_QUERY else said


def address(messages: str, id_: str, rest: str = "") -> str:
    """Return the URL of an ID below the URL `messages`; `rest` follows the ID in the path."""
    in_query = id_ in _NOT_IN_A_PATH
    path = f"{messages}/{IN_QUERY if in_query else quote(id_, safe='')}{rest}"
    return f"{path}?{urlencode({'id': id_})}" if in_query else path
