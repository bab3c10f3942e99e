"""The single address of a worker of several processes: any of the processes can answer a request for all."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from app.ops.multiprocess.metrics import merged, own
from app.ops.multiprocess.supervisor import OWN_PROCESSES, Child, Supervisor, say
from app.serve.web import guard, problem
from app.serve.web.problem import RETRY_AFTER, Problem
from app.serve.web.server import FRONT, HttpServer, bound_bodies
from app.settings.process import ProcessSettings

#: Headers of one connection (RFC 9110, section 7.6.1), and headers that aiohttp sets itself.
_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length"}
)
_CONNECT: Final = aiohttp.ClientTimeout(total=None, sock_connect=5)
_METRICS: Final = aiohttp.ClientTimeout(total=10)
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


class Front:
    """Passes requests to the first ready process, and answers itself for the health and metrics of all."""

    def __init__(self, supervisor: Supervisor, names: Sequence[str]) -> None:
        """Pass requests for the hosts `names` to the processes of `supervisor`."""
        self._supervisor, self._names = supervisor, names
        self._silent: set[int] = set()
        self._session: aiohttp.ClientSession | None = None

    async def serve(self, process: ProcessSettings) -> HttpServer:
        """Listen until the server's stop(). Raises SettingInvalid for a bad certificate, and PortUnusable."""
        web_app = web.Application(client_max_size=0, middlewares=[problem.problems])
        guard.register(web_app, self._names)
        web_app.add_routes(
            [
                web.get("/health/live", self._live),
                web.get("/health/ready", self._ready),
                web.get("/metrics", self._metrics),
                web.route("*", "/{path:.*}", self._pass_on),
            ]
        )
        bound_bodies(web_app, FRONT)
        web_app.cleanup_ctx.append(self._with_session)
        server = HttpServer(web_app, FRONT, process)
        await server.start()
        return server

    async def _with_session(self, _: web.Application) -> AsyncIterator[None]:
        # Clients' connections are limited already. With aiohttp's own limit, 100 live pages would keep all others out.
        connector, jar = aiohttp.TCPConnector(limit=0, ssl=OWN_PROCESSES), aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False, cookie_jar=jar) as self._session:
            yield

    async def _live(self, _: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _ready(self, _: web.Request) -> web.Response:
        missing = [f"process {child.process.number}: {child.missing}" for child in self._children if not child.ready]
        if missing:
            return web.Response(status=503, text="\n".join(missing) + "\n", headers=RETRY_AFTER)
        return web.Response(text="ready\n")

    @property
    def _children(self) -> list[Child]:
        return self._supervisor.children

    async def _metrics(self, request: web.Request) -> web.Response:
        """Answer GET /metrics with the metrics of all processes that respond, or with the refusal of one."""
        expositions = await asyncio.gather(*[self._exposition(child, request) for child in self._children])
        refused = next((answer for answer in expositions if isinstance(answer, web.Response)), None)
        if refused is not None:
            return refused
        answers = zip(self._children, expositions, strict=True)
        there = {child.process.number: text for child, text in answers if isinstance(text, str) and text}
        up = {child.process.number: child.ready and child.process.number in there for child in self._children}
        self._note({number for number, is_up in up.items() if not is_up})
        restarts = {child.process.number: child.restarts for child in self._children}
        body = merged(there) + own(up, restarts)
        return web.Response(body=body.encode(), headers={"Content-Type": _PROMETHEUS})

    def _note(self, silent: set[int]) -> None:
        """Report processes that are missing from the metrics, once each time."""
        for number in sorted(silent - self._silent):
            say(f"process {number} does not answer, so its metrics are missing (delay_process_up)")
        self._silent = silent

    async def _exposition(self, child: Child, request: web.Request) -> str | web.Response:
        assert self._session is not None, "it is there while this serves"
        try:
            headers = {**self._headers_for(request), "Accept-Encoding": "identity"}
            url = f"{child.process.url}/metrics"
            async with self._session.get(url, headers=headers, timeout=_METRICS) as answer:
                text = await answer.text()
                if answer.status == web.HTTPOk.status_code:
                    return text
                if answer.status in (web.HTTPUnauthorized.status_code, web.HTTPForbidden.status_code):
                    return web.Response(status=answer.status, text=text, headers=_passed(answer.headers))
        except (aiohttp.ClientError, TimeoutError):
            pass
        return ""

    def _headers_for(self, request: web.Request, body: "_ForwardedBody | None" = None) -> CIMultiDict[str]:
        """Return the headers of a request, with the client's address, by which login attempts are limited."""
        headers = _passed(request.headers)
        headers.popall("Content-Encoding", None)  # no body is compressed; aiohttp would refuse to stream with it
        if body is not None and request.content_length is not None:
            headers["Content-Length"] = str(request.content_length)
        headers[guard.PROOF_HEADER] = self._supervisor.proof
        headers[guard.ADDRESS_HEADER] = request.remote or ""
        return headers

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        for child in [child for child in self._children if child.ready] or self._children:
            answer = await self._response(child, request)
            if answer is not None:
                return answer
        sentence = "no process of this worker answers. See its log"
        raise Problem("unreachable", sentence)

    async def _response(self, child: Child, request: web.Request) -> web.StreamResponse | None:
        """Return the response of a process, None if it cannot be reached, so that another one can be tried."""
        assert self._session is not None, "it is there while this serves"
        body = _ForwardedBody(request) if request.can_read_body else None
        url = f"{child.process.url}{request.rel_url.raw_path_qs}"
        try:
            exchange = self._session.request(
                request.method,
                URL(url, encoded=True),
                headers=self._headers_for(request, body),
                data=None if body is None else body.pieces(),
                allow_redirects=False,
                timeout=_CONNECT,
            )
            async with exchange as answer:
                return await _copied(request, answer)
        except aiohttp.ClientConnectorError:
            return None
        except aiohttp.ClientError:
            if body is not None and body.failed is not None:  # the sender's connection has failed
                raise body.failed from None
            sentence = "the process that handled the request has exited. Try again"
            raise Problem("process-exited", sentence) from None


class _ForwardedBody:
    """A request's body on its way to a process."""

    def __init__(self, request: web.Request) -> None:
        self._content = request.content
        #: The error of the sender's connection, if it has failed.
        self.failed: Exception | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        try:
            async for piece in self._content.iter_any():
                yield piece
        except Exception as error:
            self.failed = error
            raise


async def _copied(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Pass a response on as it arrives: live pages never end while a browser is open."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_passed(answer.headers))
    if answer.content_length is not None:
        response.content_length = answer.content_length
    await response.prepare(request)
    try:
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
    except (aiohttp.ClientError, ConnectionError):  # the client must see that the response is incomplete
        if request.transport is not None:
            request.transport.abort()
    return response


def _passed(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return headers without those of one connection."""
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP | named)
