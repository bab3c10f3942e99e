"""Connections on which a request costs a fraction of the CPU of aiokafka's; otherwise they are the same.

aiokafka encodes each request field by field, reads answers in a task, and has a coroutine and a timer for each timeout
(aiokafka/conn.py: send, _read). Here frequent requests are encoded by hand, answers are processed as soon as they
arrive at the socket, and one timer of the connection detects late answers.
"""

import asyncio
import math
import struct
from collections import deque
from typing import Any, Final

import aiokafka.conn
import aiokafka.errors as kafka
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest

from app.kafka.wire.codec import Codec, text
from app.kafka.wire.fetch import FETCH
from app.kafka.wire.frames import Frames
from app.kafka.wire.produce import PRODUCE
from app.kafka.wire.transactions import ADD, END

_CODECS: Final[dict[type, Codec]] = {
    ProduceRequest: PRODUCE,
    FetchRequest: FETCH,
    AddPartitionsToTxnRequest: ADD,
    EndTxnRequest: END,
}
#: Length, kind of request, version, number of the request; the client's name follows.
_HEAD = struct.Struct(">ihhi")
_NUMBER, _NONE = 4, (0, -1)


class QuickConnection(AIOKafkaConnection):
    """A connection whose requests take the short way after the login."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Create a connection with aiokafka's arguments."""
        super().__init__(*args, **options)
        self._transport: Any = None
        self._client = text(self._client_id)
        #: Deadlines and answers, the oldest first; some answers have arrived already.
        self._limits = deque[tuple[float, asyncio.Future[Any]]]()
        self._timer: asyncio.TimerHandle | None = None

    async def connect(self) -> Any:
        """Connect and log in as aiokafka does."""
        streams = await super().connect()
        self._read_task.cancel()  # it waits for the first byte of an answer, but there is no request yet
        self._transport = self._writer.transport
        self._transport.set_protocol(Frames(self._frame, self._lost, self._protocol))
        return streams

    def send(self, request: Any, expect_response: bool = True) -> Any:  # noqa: FBT001, FBT002 - as aiokafka has it
        """Send a request; the returned future raises KafkaError if no answer arrives in time."""
        if self._transport is None or not expect_response or self._writer is None:
            return super().send(request, expect_response)
        codec = _CODECS.get(type(request))
        if codec is not None:
            least, most = self._versions.get(codec.api_key, _NONE)
            codec = codec if least <= codec.version <= most else None
        number = self._next_correlation_id()
        if codec is None:
            reader = request.prepare(self._versions)
            header = reader.build_request_header(correlation_id=number, client_id=self._client_id)
            message = header.encode() + reader.encode()
            self._write(len(message).to_bytes(4, "big") + message)
        else:
            reader = codec
            parts = [b"", self._client, *codec.pack(request)]
            length = _HEAD.size - _NUMBER + sum(map(len, parts))
            parts[0] = _HEAD.pack(length, codec.api_key, codec.version, number)
            self._write(b"".join(parts))
        answer = self._loop.create_future()
        self._requests.append((number, reader, answer))
        self._limit(answer)
        return answer

    @property
    def waits_since_s(self) -> float:
        """The loop's time since which the oldest answer is awaited; infinity if none is."""
        limits = self._limits
        while limits and limits[0][1].done():
            limits.popleft()
        return limits[0][0] - self._request_timeout if limits else math.inf

    def _write(self, message: bytes) -> None:
        try:
            self._transport.write(message)
        except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError if the connection was lost a moment ago
            self.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
            raise kafka.KafkaConnectionError(f"the connection to {self.host}:{self.port} is lost: {error}") from error

    # answers ---------------------------------------------------------------------------------------------------------
    def _frame(self, frame: bytes) -> bool:
        """Process an answer; return whether there may be another."""
        if not self._requests:
            raise kafka.CorrelationIdError("a response without a request")
        number, reader, answer = self._requests[0]
        if not isinstance(reader, Codec):
            self._handle_frame(frame)
            return self._reader is not None
        if int.from_bytes(frame[:_NUMBER], "big") != number:
            if not answer.done():
                answer.set_exception(
                    kafka.CorrelationIdError(f"{self}: the response does not belong to request {number}")
                )
            self.close(reason=CloseReason.OUT_OF_SYNC)
            return False
        if not answer.done():
            answer.set_result(reader.unpack(frame))
        self._last_action = self._loop.time()  # monotonic, as aiokafka's own
        self._requests.popleft()
        return True

    def _lost(self, error: BaseException | None) -> None:
        """Close the connection, because no more answers will arrive."""
        self.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)

    def _limit(self, answer: "asyncio.Future[Any]") -> None:
        limits = self._limits
        while limits and limits[0][1].done():
            limits.popleft()
        limits.append((self._loop.time() + self._request_timeout, answer))
        if self._timer is None:
            self._timer = self._loop.call_later(self._request_timeout, self._look)

    def _look(self) -> None:
        """Fail the oldest answer if it is late, and close the connection."""
        self._timer = None
        while self._limits:
            until, answer = self._limits[0]
            if not answer.done():
                if until > self._loop.time():
                    self._timer = self._loop.call_at(until, self._look)
                    return
                answer.set_exception(kafka.RequestTimedOutError())
                self.close(reason=CloseReason.CONNECTION_TIMEOUT)  # the next request opens another one
                return
            self._limits.popleft()

    def close(self, reason: Any = None, exc: BaseException | None = None) -> Any:
        """Close the connection as aiokafka does, and stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._limits.clear()
        return super().close(reason=reason, exc=exc)


def install() -> None:
    """Make aiokafka's clients use these connections."""
    aiokafka.conn.AIOKafkaConnection = QuickConnection
