"""The API for the pages: requests are answered within the process, with the permissions of the page's user."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from app.serve.access.caller import CALLER, put
from app.serve.web.problem_types import TYPES

_BODY_HEADERS: Final = ("Content-Type", "Content-Length", "Transfer-Encoding", "Content-Encoding", "Expect")


class JsonAnswer(msgspec.Struct, frozen=True):
    """A response of the API: a status, and an object, which is a problem if the request failed."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status < web.HTTPBadRequest.status_code

    @property
    def absent(self) -> bool:
        """Whether the API has no such route: a page without it is not an error."""
        return self.body.get("type") == TYPES["not-found"].type

    @property
    def error(self) -> str:
        """The sentence of the error, or "" without an error."""
        return "" if self.ok else str(self.body.get("detail") or "")

    def get(self, name: str, default: Any = None) -> Any:
        """Return a member of the response; `default` if it is missing, or the request failed."""
        return self.body.get(name, default) if self.ok else default


class ConsoleApi:
    """The API of this worker, with the user of `request`: middlewares and handlers see that user."""

    def __init__(self, web_app: web.Application, request: web.Request) -> None:
        self._web_app, self._request = web_app, request

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> JsonAnswer:
        """Return the response to GET at a path under /api/v1."""
        params = {name: value for name, value in (query or {}).items() if value}
        return await self._send("GET", f"{path}?{urlencode(params)}" if params else path, b"")

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> JsonAnswer:
        """Return the response to POST at a path under /api/v1."""
        return await self._send("POST", path, msgspec.json.encode(body or {}))

    async def _send(self, method: str, path: str, body: bytes) -> JsonAnswer:
        request = _derived(self._request, method, f"/api/v1{path}", body)
        if CALLER in self._request:
            put(request, self._request[CALLER])  # the user of the page is the user of the API
        # aiohttp takes the same steps for a request from outside (web_app.py, Application._handle).
        try:
            response = await self._web_app._handle(request)  # noqa: SLF001 - aiohttp has no public way without a socket
        except web.HTTPException as error:
            response = error
        content = getattr(response, "body", None)
        try:
            document = msgspec.json.decode(content) if isinstance(content, bytes) and content else {}
        except msgspec.DecodeError:
            document = {}
        answer = JsonAnswer(response.status, document if isinstance(document, dict) else {})
        if answer.ok or answer.error:
            return answer
        sentence = f"this worker cannot answer {method} /api/v1{path.partition('?')[0]}. See its log"
        return JsonAnswer(response.status, {"detail": sentence})


def _derived(request: web.Request, method: str, path: str, body: bytes) -> web.Request:
    """Return a request of the same user for another URL; `Request.clone` fails once a form has been read."""
    headers = CIMultiDict((name, value) for name, value in request.headers.items() if name not in _BODY_HEADERS)
    for name in _BODY_HEADERS:
        headers.popall(name, None)
    if method == "POST":
        headers["Content-Type"] = "application/json"
    headers["Content-Length"] = str(len(body))
    url = URL(path, encoded=True)
    message = request._message._replace(  # noqa: SLF001 - as Request.clone does
        method=method,
        path=path,
        url=url,
        headers=CIMultiDictProxy(headers),
        raw_headers=tuple((name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers.items()),
    )
    payload = StreamReader(request.protocol, limit=1 << 20, loop=request._loop)  # noqa: SLF001
    payload.feed_data(body)
    payload.feed_eof()
    return web.Request(
        message,
        payload,
        request.protocol,
        request._payload_writer,  # noqa: SLF001
        request.task,
        request._loop,  # noqa: SLF001
        client_max_size=request._client_max_size,  # noqa: SLF001
    )
