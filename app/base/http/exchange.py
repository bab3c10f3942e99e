"""A connection to a receiver: responses are bounded, and only bytes after a request count as a response.

aiohttp opens connections and keeps them (aiohttp/connector.py). Its parser (aiohttp/client_proto.py) never sees a
receiver's bytes, only a response rebuilt here, so that responses cost at most what `AnswerReader` allows.
"""

import functools
import select
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from app.base.http.answer_reader import AnswerError, AnswerReader


class AnswerRefusedError(aiohttp.ClientError):
    """A malformed or too large response; `why` is the reason in a few words."""

    def __init__(self, why: str) -> None:
        """Keep the reason `why`."""
        super().__init__(why)
        self.why = why


class Exchange(ResponseHandler):
    """Requests and responses on one connection, one after the other."""

    _reader: AnswerReader | None = None
    _begun = False

    def set_response_params(self, **params: Any) -> None:
        """Expect the response to the next request."""
        super().set_response_params(**params)
        self._reader, self._begun = AnswerReader(), False

    def is_connected(self) -> bool:
        """Return whether the connection can be used: it cannot if the receiver sent bytes without a request."""
        return super().is_connected() and not (self._reader is None and self._has_unread())

    def _has_unread(self) -> bool:
        """Return whether the socket has bytes, or its end, that the event loop has not read yet."""
        sock = None if self.transport is None else self.transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def data_received(self, data: bytes) -> None:
        """Read the response; bytes that come without a request end the connection."""
        reader = self._reader
        if reader is None:
            self.abort()
            return
        try:
            reader.feed(data)
        except AnswerError as error:
            self._reader = None
            transport = self.transport
            self.set_exception(AnswerRefusedError(error.why))
            if transport is not None:
                transport.abort()
            return
        if reader.status:
            self._pass_on(reader)

    def _pass_on(self, reader: AnswerReader) -> None:
        """Give aiohttp the head once, and the end."""
        if reader.ended:
            self._reader = None
            if not reader.reusable:
                self.force_close()
        if not self._begun:
            self._begun = True
            framing = "Content-Length: 0" if reader.ended else "Transfer-Encoding: chunked"
            retry = "" if reader.retry_after is None else f"Retry-After: {reader.retry_after[:64]}\r\n"
            head = f"HTTP/1.1 {reader.status} -\r\n{retry}{framing}\r\n\r\n"
            super().data_received(head.encode("latin-1"))
        elif reader.ended:
            super().data_received(b"0\r\n\r\n")


class Connector(aiohttp.TCPConnector):
    """Opens connections with bounded responses."""

    def __init__(self, **options: Any) -> None:
        """Begin without connections; `options` are those of aiohttp."""
        super().__init__(**options)
        self._factory: Any = functools.partial(Exchange, loop=self._loop)
