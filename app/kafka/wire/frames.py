"""Answers as they come out of a socket: each begins with its length."""

import asyncio
from collections.abc import Callable

_LENGTH = 4


class Frames(asyncio.Protocol):
    """Cuts what comes by a connection into frames."""

    def __init__(
        self,
        take: Callable[[bytes], bool],
        lost: Callable[[BaseException | None], None],
        streams: asyncio.StreamReaderProtocol,
    ) -> None:
        """Give each frame to `take`, which says whether there may be another; `lost` hears why no more come.

        `streams` is what the connection had before: it hears what is not about frames.
        """
        self._take, self._lost, self._streams = take, lost, streams
        self.pause_writing, self.resume_writing = streams.pause_writing, streams.resume_writing  # type: ignore[method-assign]
        self._rest = bytearray()

    def data_received(self, data: bytes) -> None:
        """Take what has come; most often that is one frame, whole."""
        try:
            if not self._rest and int.from_bytes(data[:_LENGTH], "big") == len(data) - _LENGTH:
                self._take(data[_LENGTH:])
            else:
                self._rest += data
                self._cut()
        except Exception as error:  # noqa: BLE001 - as in aiokafka's reader: the connection is of no use any more
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
        """Hear that the broker closed the connection."""
        self._streams.eof_received()
        self._lost(EOFError("the broker closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the connection is lost."""
        self._streams.connection_lost(exc)
        self._lost(exc or EOFError("the connection is lost"))
