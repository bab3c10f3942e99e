"""Reads one response from the bytes of a connection: its status and its end, at a bounded cost."""

import re
from typing import Final

#: The maximum bytes of all heads before the final status, and the maximum number of interim responses (1xx).
HEAD_BYTES: Final = 65_536
INTERIM: Final = 8
#: The maximum bytes of a body with chunk sizes and trailers, and of chunks. A larger body ends the connection.
BODY_BYTES: Final = 16_384
CHUNKS: Final = 128
#: The maximum number of reads per response: reading one byte costs the event loop as much as a kilobyte.
PIECES: Final = 512

_SWITCHING, _NO_BODY, _FINAL = 101, frozenset({204, 304}), 200
_STATUS: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])[ \r\n]")
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_FIELD: Final = re.compile(
    rb"^(content-length|transfer-encoding|connection|retry-after)[ \t]*:([^\n]*)", re.IGNORECASE | re.MULTILINE
)
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,5})[ \t]*(?:;[^\n]*)?\r?")


class AnswerError(Exception):
    """A response without a usable status; `why` is the reason in a few words."""

    def __init__(self, why: str) -> None:
        """Keep the reason `why`."""
        super().__init__(why)
        self.why = why


class AnswerReader:
    """Reads the response to one request.

    `status` is 0 until the head of the final response has come; a malformed body does not change it. `ended` says that
    the reader is done, and `reusable` that the connection is then at the start of the next response.
    """

    def __init__(self) -> None:
        """Begin before the first byte of a response."""
        self.status = 0
        self.retry_after: str | None = None
        self.ended, self.reusable = False, False
        self._buffer = bytearray()
        self._head = self._interim = self._pieces = self._chunks = self._place = 0
        #: The length of the body; -1 if it is chunked, None if it ends with the connection.
        self._length: int | None = None

    def feed(self, data: bytes) -> None:
        """Read the next bytes. Raises AnswerError if no status can follow."""
        self._pieces += 1
        self._buffer += data[: HEAD_BYTES + 1]  # one read can have up to four times as much
        while not self.status:
            if not self._next_head():
                self._assure_bounds()
                return
        if not self.ended:
            self._read_body()

    def _assure_bounds(self) -> None:
        if self._head + len(self._buffer) > HEAD_BYTES:
            raise AnswerError("the headers of the response are too large")
        if self._pieces > PIECES:
            raise AnswerError("the response has too many chunks")

    def _next_head(self) -> bool:
        """Read one head, interim or final; return whether it was complete."""
        start = len(self._buffer) - len(self._buffer.lstrip(b"\r\n"))
        self._cut(start)
        match = _HEAD_END.search(self._buffer)
        if match is None:
            return False
        head = bytes(self._buffer[: match.end()])
        self._cut(match.end())
        if self._head > HEAD_BYTES:
            raise AnswerError("the headers of the response are too large")
        line = _STATUS.match(head)
        if line is None:
            raise AnswerError("no HTTP answer")
        status = int(line[2])
        if status >= _FINAL or status == _SWITCHING:
            self._read_fields(head, recent=line[1] != b"0")
            self.status = status
        else:
            self._interim += 1
            if self._interim > INTERIM:
                raise AnswerError("too many interim responses")
        return True

    def _cut(self, count: int) -> None:
        self._head += count
        del self._buffer[:count]

    def _read_fields(self, head: bytes, *, recent: bool) -> None:
        """Read the body's framing, and whether the connection stays open; contradictory framing ends both."""
        values: dict[bytes, list[bytes]] = {}
        for name, value in _FIELD.findall(head):
            values.setdefault(name.lower(), []).append(value.strip())
        retry = values.get(b"retry-after")
        self.retry_after = retry[0].decode("latin-1") if retry else None
        options = {option.strip() for option in b",".join(values.get(b"connection", ())).lower().split(b",")}
        self.reusable = b"close" not in options and (recent or b"keep-alive" in options)
        lengths, codings = set(values.get(b"content-length", ())), values.get(b"transfer-encoding", [])
        if codings:
            self._length = -1 if [coding.lower() for coding in codings] == [b"chunked"] and not lengths else None
        elif len(lengths) == 1 and (length := lengths.pop()).isdigit():
            self._length = int(length[:12])

    def _read_body(self) -> None:
        """Read to the end of the body, up to the maximum."""
        del self._buffer[BODY_BYTES + 1 :]
        if self.status in _NO_BODY:
            self._end(at=0)
        elif self.status == _SWITCHING:
            self._end(at=None)
        elif self._length is not None and self._length >= 0:
            if len(self._buffer) >= self._length:
                self._end(at=self._length)
        elif self._length == -1:
            self._read_chunks()
        if not self.ended and (len(self._buffer) > BODY_BYTES or self._pieces > PIECES):
            self._end(at=None)

    def _read_chunks(self) -> None:
        while (line_end := self._buffer.find(b"\n", self._place)) >= 0:
            size = _CHUNK.fullmatch(self._buffer, self._place, line_end)
            if size is None:
                self._end(at=None)
                return
            length = int(size[1], 16)
            if not length:  # trailers, and an empty line
                match = _HEAD_END.search(self._buffer, line_end)
                if match is not None:
                    self._end(at=match.end())
                return
            after = line_end + 1 + length
            if len(self._buffer) < after + 2:
                return
            self._chunks += 1
            if self._buffer[after : after + 2] != b"\r\n" or self._chunks > CHUNKS:
                self._end(at=None)
                return
            self._place = after + 2

    def _end(self, *, at: int | None) -> None:
        """End the response; the connection is reusable if the response ends exactly at the last byte."""
        self.ended = True
        self.reusable = self.reusable and at == len(self._buffer)
        self._buffer.clear()
