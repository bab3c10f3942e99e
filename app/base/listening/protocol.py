"""aiohttp's connection, with limits on slow heads, bodies and readers, and without clients' bytes in the log.

aiohttp limits idle connections (`keepalive_timeout`) but not slow ones: a head that comes byte by byte
counts as idle, and bodies and answers may take for ever (aiohttp/web_protocol.py, RequestHandler).
"""

import logging
from typing import Any, Final

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.streams import StreamReader  # noqa: TC002 - its name is in slots that a reader looks up

from app.base.listening import limits
from app.base.listening.limits import HttpRefusal, HttpRefusals
from app.base.listening.turns import Turns

log = logging.getLogger(__name__)


class TooSlow(Exception):
    """A body comes too slowly."""


#: Exceptions of a body that is malformed, cut off or too slow.
BAD_BODIES: Final = (HttpProcessingError, web.RequestPayloadError, TooSlow)


class ClientConnection(web.RequestHandler):
    """One client's connection."""

    __slots__ = (
        "_answer_s",
        "_body",
        "_body_s",
        "_broken",
        "_bytes",
        "_drops",
        "_head_s",
        "_reads",
        "_refusals",
        "_resumes",
        "_stuck_s",
        "_turns",
    )

    def __init__(self, refusals: HttpRefusals, turns: Turns, *arguments: Any, **options: Any) -> None:
        """Begin as aiohttp's connection does; `refusals` answers bytes that are not HTTP.

        The connections of a server share its `turns`, in which they read large bodies.
        """
        super().__init__(*arguments, **options)
        self._refusals, self._turns = refusals, turns
        self._drops = self._resumes = False
        self._head_s: float | None = None
        self._body: StreamReader | None = None
        self._body_s, self._bytes, self._reads = 0.0, 0, 0
        self._broken = False
        self._answer_s: float | None = None
        self._stuck_s: float | None = None

    def data_received(self, data: bytes) -> None:
        """Pass bytes to aiohttp, and note when a head or body began."""
        # A head in small pieces bounds the text of an error, and the chunks of a body whose limits are not set yet.
        begin, last = 0, len(data) - limits.PIECE_BYTES
        while begin < last and not (self._in_body or self._is_stopped or self._buffer_paused):
            self._parse(data[begin : begin + limits.PIECE_BYTES])
            begin += limits.PIECE_BYTES
        if self._is_stopped:  # aiohttp would parse it, and keep its errors
            self._drop()
        else:
            self._parse(data[begin:])

    @property
    def _in_body(self) -> bool:
        return self._body is not None and not self._body.is_eof()

    @property
    def _is_stopped(self) -> bool:
        """Whether the client's bytes are dropped."""
        return self._broken or self._drops

    def _parse(self, data: bytes) -> None:
        count, in_body = self._request_count, self._in_body
        super().data_received(data)
        if self._request_count > count:  # a head is complete
            self._head_s = None
            message, body = self._messages[-1]
            self._broken = not isinstance(message, RawRequestMessage)
            if self._broken and in_body:
                self._break_off()
                return
            self._body, self._body_s, self._bytes, self._reads = body, self._loop.time(), 0, 0
            if self._in_body:
                limits.bound_chunks(body)
        elif in_body:
            self._bytes += len(data)
        elif data and self._head_s is None:
            self._head_s = self._loop.time()

    def _break_off(self) -> None:
        """Raise an error in the reader of a malformed body, which would wait for ever; then end the connection."""
        assert self._body is not None, "only a body can be malformed"
        self._messages.pop()  # otherwise aiohttp would answer it separately
        self._body.set_exception(web.RequestPayloadError("the body is malformed"))
        self.close()

    def _drop(self) -> None:
        """Drop bytes, and receive the next ones a moment later: as fast as they come, they would hold up all others."""
        self._pause_transport_reading()
        self._loop.call_later(limits.DROP_S, self._resume_transport_reading)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - aiohttp's
        """Parse and receive more of a body in a later turn of the loop; large bodies wait for their `turns`.

        aiohttp does so at once for each part that a handler takes, so that a body in many small chunks is parsed in one
        turn. Without `resume_parser` the body has ended.
        """
        if not resume_parser:
            super().resume_reading(resume_parser=False)
        elif self._reading_paused and not self._resumes:
            self._resumes = True
            self._reads += 1
            if self._drops:
                self._loop.call_later(limits.DROP_S, self._resume)
            elif self._reads > limits.QUICK_READS:
                self._turns.add(self._resume)
            else:
                self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resumes = False
        if self._reading_paused and self.transport is not None:
            super().resume_reading()

    def pause_writing(self) -> None:
        """Note the time since which the client has not read its answer."""
        super().pause_writing()
        self._stuck_s = self._loop.time()

    def resume_writing(self) -> None:
        """Note that the client reads its answer again."""
        super().resume_writing()
        self._stuck_s = None

    @property
    def idle(self) -> bool:
        """Whether no request is being received or answered."""
        return self._head_s is None and not self._messages and not self._request_in_progress

    def look(self, now_s: float) -> str | None:
        """End the connection if it is too slow; return which part was: `head`, `body` or `answer`, or None."""
        for since_s in (self._answer_s, self._stuck_s):
            if since_s is not None and now_s - since_s > limits.ANSWER_S:
                return self._end("answer")
        if self._answer_s is not None:
            return None
        if self._current_request is None:
            late = self._head_s is not None and now_s - self._head_s > limits.HEAD_S
            return self._end_head() if late and not self._request_in_progress else None
        if self._body is not None and not self._body.is_eof():
            late = now_s - self._body_s > limits.BODY_S + self._bytes / limits.BODY_BYTES_PER_S
            return self._end_body() if late else None
        return None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write an answer as aiohttp does, and note when it began; then drop the rest of a large body."""
        self._answer_s = self._loop.time()
        if self._has_much_left(request):
            self._drops = True
            resp.force_close()
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._answer_s = None

    def _has_much_left(self, request: web.BaseRequest) -> bool:
        """Return whether the rest of a body costs more than a new connection."""
        if request.content.is_eof():
            return False
        length = request.content_length
        return length is None or length - request.content.total_bytes > limits.REST_BYTES

    def _end(self, what: str) -> str:
        if self.transport is not None:
            self.transport.abort()
        return what

    def _end_head(self) -> str | None:
        """Answer a head that takes too long, and close the connection; end it if it is still open at the next look."""
        if self._broken or self.transport is None:
            self._end("head")
            return None
        self._broken = True
        refusal = HttpRefusal("timeout", 408, "The head arrived too slowly. Send it again.")
        answer = self._refusals.answer(refusal)
        body = answer.body if isinstance(answer.body, bytes) else b""
        head = (
            f"HTTP/1.1 408 Request Timeout\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
        return "head"

    def _end_body(self) -> str | None:
        """Raise TooSlow in the body's reader; end the connection if the error is still there at the next look."""
        assert self._body is not None, "only a body can be too slow"
        if self._body.exception() is not None:
            return self._end("body")
        self._body.set_exception(TooSlow())
        return None

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer bytes that are not HTTP. They are neither logged nor sent back, because they may be a secret."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        refusal = _refusal(exc, self.max_field_size)
        exc.__traceback__ = exc.__context__ = exc.__cause__ = None  # its frames keep the received bytes, in a cycle
        log.debug("%s from %s", refusal.sentence, request.remote)
        answer = self._refusals.answer(refusal)
        answer.force_close()
        return answer

    def log_exception(self, *arguments: Any, exc_info: Any = True, **options: Any) -> None:
        """Log an internal error, but not a client's disconnect or a malformed body, whose errors quote the body."""
        gone = isinstance(exc_info, ConnectionError) and self.transport is None
        if gone or isinstance(exc_info, BAD_BODIES):
            log.debug("the request body is malformed or incomplete: %s", type(exc_info).__name__)
            return
        super().log_exception(*arguments, exc_info=exc_info, **options)


def _refusal(exc: HttpProcessingError, header_bytes: int) -> HttpRefusal:
    """Return the refusal of a head that aiohttp cannot parse, without the error's text, which quotes the head."""
    if isinstance(exc, LineTooLong):
        sentence = (
            "A line of the request's head is too long. The maximum is 8,190 bytes for the first line and "
            f"{header_bytes:,} for a header."
        )
        return HttpRefusal("headers-too-large", 431, sentence)
    if exc.message.startswith("Too many headers"):
        return HttpRefusal("headers-too-large", 431, "The request has more than 64 headers.")
    return HttpRefusal("bad-request", 400, "The request is not valid HTTP/1.1.")
