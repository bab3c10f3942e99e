"""Answers as they arrive at a socket: each begins with its length."""

import asyncio
from collections.abc import Callable

_LENGTH = 4


class Frames(asyncio.Protocol):
    """Splits a connection's bytes into frames."""

    def __init__(
        self,
        take: Callable[[bytes], bool],
        lost: Callable[[BaseException | None], None],
        streams: asyncio.StreamReaderProtocol,
    ) -> None:
        """Pass each frame to `take`, which returns whether there may be another; `lost` gets the cause of the end.

        `streams` is the connection's former protocol: it still gets the calls that are not about frames.
        """
        self._take, self._lost, self._streams = take, lost, streams
        self.pause_writing, self.resume_writing = streams.pause_writing, streams.resume_writing  # type: ignore[method-assign]
        self._rest = bytearray()

    def data_received(self, data: bytes) -> None:
        """Process bytes, which are most often one whole frame."""
        try:
            if not self._rest and int.from_bytes(data[:_LENGTH], "big") == len(data) - _LENGTH:
                self._take(data[_LENGTH:])
            else:
                self._rest += data
                self._cut()
        except Exception as error:  # noqa: BLE001 - as in aiokafka's reader: the connection is unusable
            self._lost(error)

    def _cut(self) -> None:
        rest, begin, more = self._rest, 0, True
        while more and len(rest) - begin >= _LENGTH:
            end = begin + _LENGTH + int.from_bytes(rest[begin : begin + _LENGTH], "big")
            if end > len(rest):
                break
            with memoryview(rest) as whole:
                frame = bytes(whole[begin + _LENGTH : end])
            more, begin = self._take(frame), end
        del rest[:begin]

    def eof_received(self) -> None:
        """Report that the broker closed the connection."""
        self._streams.eof_received()
        self._lost(EOFError("the broker closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the connection is lost."""
        self._streams.connection_lost(exc)
        self._lost(exc or EOFError("the connection is lost"))
