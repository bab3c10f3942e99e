"""aiohttp's connection, with what it lacks: it knows since when a head or a body is coming, and logs no client's bytes.

aiohttp has a bound for what is idle (`keepalive_timeout`) and none for what is slow: a head that comes byte by byte
counts as idle, a body may take for ever, and an answer too (aiohttp/web_protocol.py, RequestHandler).
"""

import logging
from typing import Any

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import StreamReader  # noqa: TC002 - its name is in slots that a reader looks up

from app.gateway import limits, problem
from app.gateway.problem import Problem
from app.gateway.refusals import refused

log = logging.getLogger(__name__)


class TooSlow(Exception):
    """A body comes so slowly that it is not waited for."""


class ClientConnection(web.RequestHandler):
    """One client's connection."""

    __slots__ = ("_answer_s", "_body", "_body_s", "_broken", "_bytes", "_handled", "_handled_s", "_head_s")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Begin, as aiohttp's own does."""
        super().__init__(*arguments, **options)
        self._head_s: float | None = None
        self._body: StreamReader | None = None
        self._body_s, self._bytes = 0.0, 0
        self._broken = False
        self._answer_s: float | None = None
        self._handled: web.BaseRequest | None = None
        self._handled_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Take note of what comes."""
        if self._broken:  # aiohttp would go on reading it, and keep what it finds wrong
            return
        count, in_body = self._request_count, self._body is not None and not self._body.is_eof()
        super().data_received(data)
        if self._request_count > count:  # a head is whole
            self._head_s = None
            message, self._body = self._messages[-1]
            self._broken = not isinstance(message, RawRequestMessage)
            self._body_s, self._bytes = self._loop.time(), 0
        elif in_body:
            self._bytes += len(data)
        elif data and self._head_s is None:
            self._head_s = self._loop.time()

    @property
    def idle(self) -> bool:
        """Whether nothing has come of a next request, and none is being answered."""
        return self._head_s is None and not self._messages and not self._request_in_progress

    def look(self, now_s: float) -> str | None:
        """End what is too slow; return what that is, if anything is."""
        request, in_body = self._current_request, self._body is not None and not self._body.is_eof()
        if self._answer_s is not None:
            return self._end("answer") if now_s - self._answer_s > limits.ANSWER_S else None
        if request is None:
            late = self._head_s is not None and now_s - self._head_s > limits.HEAD_S
            return self._end("head") if late and not self._request_in_progress else None
        if in_body:
            self._handled = None
            late = now_s - self._body_s > limits.BODY_S + self._bytes / limits.BODY_BYTES_PER_S
            return self._end_body() if late else None
        if request is not self._handled:
            self._handled, self._handled_s = request, now_s
        return self._end("answer") if now_s - self._handled_s > limits.ANSWER_S else None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write an answer, as aiohttp's own does, and know since when."""
        self._answer_s = self._loop.time()
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._answer_s = None

    def _end(self, what: str) -> str:
        if self.transport is not None:
            self.transport.abort()
        return what

    def _end_body(self) -> str | None:
        """Have whoever reads the body say so; end the connection if nobody has listened by the next look."""
        assert self._body is not None, "it is what is too slow"
        if self._body.exception() is not None:
            return self._end("body")
        self._body.set_exception(TooSlow())
        return None

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is no HTTP with a problem. What has come is not logged, nor sent back: it may be a secret."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        found = _problem(exc)
        exc.__traceback__ = exc.__context__ = exc.__cause__ = None  # its frames keep what has come, in a cycle
        refused(found.kind.name)
        log.debug("%s from %s", found.detail, request.remote)
        answer = problem.response(found)
        answer.force_close()
        return answer


def _problem(exc: HttpProcessingError) -> Problem:
    """Return the problem that a request is which aiohttp cannot read; its text has what has come, and is not used."""
    if isinstance(exc, LineTooLong):
        sentence = "A line of the request's head is too long: the first has up to 8,190 bytes, a header 4,096."
        return Problem("headers-too-large", sentence)
    if exc.message.startswith("Too many headers"):
        return Problem("headers-too-large", "The request has more than 64 headers.")
    return Problem("bad-request", "What has come is no HTTP/1.1 request.")
