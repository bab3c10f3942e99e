"""A queue on a Kafka topic: each message is acknowledged separately, and comes back if it is not."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Self
from uuid import uuid4

from punctual.client.connection import Connection
from punctual.client.errors import ClientClosedError, DelayError, InvalidOptionError
from punctual.client.requests import topic_bytes
from punctual.client.retries import DEFAULT_BACKOFF, is_count
from punctual.client.times import span_ms
from punctual.contract.queue_report import QueueReport, topic_of
from punctual.contract.retry import Backoff
from punctual.queue.backlog import Backlog
from punctual.queue.breaker import Breaker
from punctual.queue.held import Held
from punctual.queue.intake import QueueIntake
from punctual.queue.markers import Markers
from punctual.queue.message import Message
from punctual.queue.outbox import Outbox
from punctual.queue.reporter import Reporter
from punctual.queue.settlement import Settlement
from punctual.queue.stats import Stats

_BATCH: Final = 500
_LOOK_S: Final = 1.0
#: The minimum lag: smaller values are not reliable.
_LAG_S: Final = 2.0
_BATCH_BYTES: Final = 1 << 18
#: The timeout of a report, so that the queue does not wait for its reports.
_ABOUT: Final = timedelta(seconds=3)


class DelayQueue:
    """Messages of a topic for one group of consumers, each acknowledged separately; for tasks of one event loop.

        async with DelayQueue("localhost:9092", "orders", "billing", timedelta(seconds=30)) as queue:
            async for message in queue:
                await charge(message.value)
                await message.ack()

    At least once, whatever fails: a message that is not acknowledged within the timeout is delivered to the topic
    again, at its end and as the next attempt; after `max_attempts` it is a dead letter `attempts-exhausted`. There is
    no order.
    """

    def __init__(  # noqa: PLR0913 - the options of a queue
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str,
        group: str,
        timeout: timedelta = timedelta(seconds=30),
        *,
        max_attempts: int | None = 8,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_unacked: int = 1_000,
        redeliver_to: str | None = None,
        breaker: Breaker | None = None,
        app_id: str = "delay",
        requests_topic: str | None = None,
        namespace: str = "",
        ack_timeout: timedelta = timedelta(seconds=30),
        consumer: Mapping[str, Any] | None = None,
        **kafka: Any,
    ) -> None:
        """Describe the queue; `start` or `async with` connects.

        `max_attempts`: the maximum number of attempts; None for no limit. `backoff`: the default delay of `nack`.
        `max_unacked`: the maximum number of messages held at once; choose a number that can be processed
        within the timeout. `redeliver_to`: a topic of this group's own for redeliveries, which is read too; needed
        where other groups read `topic`. `app_id`: the worker's DELAY_APP_ID. `requests_topic` and `namespace`: a team's
        own input, in the native format, as for DelayClient. `consumer`: options only for aiokafka's consumer;
        `kafka`: options for both consumer and producer, such as TLS and SASL.
        """
        timeout_ms = span_ms(timeout, "timeout")
        if timeout_ms < 1:
            raise InvalidOptionError(f"timeout={timeout!r} leaves no time to process a message: give some seconds.")
        if not (max_attempts is None or is_count(max_attempts)) or not is_count(max_unacked):
            raise InvalidOptionError("max_attempts and max_unacked are counts: give 1 or more (max_attempts or None).")
        to = topic_bytes(topic if redeliver_to is None else redeliver_to).decode()
        self._topics = list(dict.fromkeys([topic, to]))
        self._markers = Markers(group, topic, to, timeout_ms, max_attempts, namespace)
        self._servers, self._consuming = bootstrap_servers, {**kafka, **(consumer or {})}
        self._ack_timeout_s = ack_timeout.total_seconds()
        producing = {"max_batch_size": _BATCH_BYTES, **kafka}
        requests = requests_topic or f"{app_id}-requests"
        self._connection = Connection(bootstrap_servers, requests, (), ack_timeout, producing, namespace)
        self._outbox = Outbox(self._connection)
        self._backlog, self._app_id = Backlog(self._connection, time.monotonic), app_id
        self.breaker = breaker or Breaker()
        self.stats = Stats()
        self._held = Held(max_unacked, time.monotonic)
        self._changed = asyncio.Event()
        self._settlement = Settlement(
            connection=self._connection,
            markers=self._markers,
            outbox=self._outbox,
            held=self._held,
            breaker=self.breaker,
            stats=self.stats,
            changed=self._changed,
            backoff=backoff,
            ack_timeout_s=self._ack_timeout_s,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._intake: QueueIntake | None = None
        self._closed = False
        about = Connection(bootstrap_servers, topic_of(app_id), (), _ABOUT, dict(kafka))
        self._reporter, self._name = Reporter(about, self._report), f"{socket.gethostname()}-{uuid4().hex[:8]}"

    @property
    def unacked(self) -> int:
        """The number of messages that are handed out, and neither settled nor past their deadlines."""
        return self._held.out

    @property
    def worker_lag(self) -> timedelta:
        """The worker's lag behind this queue's markers; beyond a third of the timeout, no more messages are read."""
        return timedelta(seconds=self._backlog.lag_s)

    async def start(self) -> None:
        """Connect. Raises KafkaUnreachableError, RequestsTopicMissingError or an InvalidRequestError."""
        if self._tasks:
            return
        await self._connection.open(None)
        try:
            self._intake = await QueueIntake.open(
                self._servers, self._topics, self._consuming, self._connection, self._markers, self._settlement
            )
        except BaseException:
            await self._connection.close()
            raise
        self._tasks = [asyncio.create_task(self._read(self._intake)), asyncio.create_task(self._outbox.run())]
        for task in self._tasks:
            task.add_done_callback(lambda _: self._changed.set())
        looking = self._backlog.watch(self._servers, self._app_id, self._consuming)
        self._beside = [asyncio.create_task(looking)]
        if self._connection.knows(topic_of(self._app_id)):
            self._beside.append(asyncio.create_task(self._reporter.run()))

    async def aclose(self) -> None:
        """Release messages that were not handed out, send the remaining markers, and leave the group."""
        tasks, self._tasks = self._tasks, []
        intake, self._intake = self._intake, None
        if intake is None:
            return
        self._closed = True
        self._changed.set()
        reading, sending = tasks
        try:
            await _ended(reading, *self._beside)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ack_timeout_s):
                    await self._release(0)
                    await self._outbox.drained()
            await _ended(sending)
        finally:
            try:
                await intake.close()
            finally:
                await self._connection.close()
                await self._reporter.aclose()

    async def flush(self) -> None:
        """Return when Kafka has all acknowledgements so far."""
        await self._outbox.drained()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await self.aclose()

    # for programs ----------------------------------------------------------------------------------------------------
    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages; any number of tasks may iterate at once, and each message goes to one task."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message."""
        [message] = await self._next(1)
        return message

    async def batches(self, most: int = _BATCH) -> AsyncIterator[list[Message]]:
        """Iterate over lists of available messages, each with at most `most`."""
        with suppress(StopAsyncIteration):
            while True:
                yield await self._next(most)

    async def _next(self, most: int) -> list[Message]:
        if self._intake is None and not self._closed:
            raise ClientClosedError(type(self).__name__)
        while self._intake is not None:
            for task in self._tasks:
                if task.done():
                    await task  # raises the error that has ended it
            self._expire()
            passing = 1 if self.breaker.is_open else most
            if not self.breaker.wait_s():
                messages, late = self._held.hand_out(passing)
                self.stats.expired += late
                if messages:
                    self.breaker.passed()
                    self._changed.set()
                    return messages
            await self._pause(_LOOK_S)
        raise StopAsyncIteration

    # background ------------------------------------------------------------------------------------------------------
    async def _read(self, intake: QueueIntake) -> None:
        opened, is_open = self.breaker.opened, False
        while True:
            self._expire()
            if self.breaker.is_open is not is_open:
                is_open = self.breaker.is_open
                self._reporter.notify()
            if self.breaker.opened != opened:
                opened = self.breaker.opened
                await self._release(self._markers.timeout_ms)
            limit = self._wanted()
            if not limit:
                await self._pause(_LOOK_S)
                continue
            messages = await intake.take(limit)
            self.stats.exhausted += intake.exhausted
            intake.exhausted = 0
            self.stats.received += len(messages)
            self.stats.redelivered += sum(message.attempt > 1 for message in messages)
            self._held.add(messages)
            self._changed.set()

    def _report(self) -> QueueReport:
        stats, breaker = self.stats, self.breaker
        return QueueReport(
            topic=self._topics[0],
            group=self._markers.group,
            consumer=self._name,
            open=breaker.is_open,
            opened=breaker.opened,
            probes=breaker.probes,
            unacked=self.unacked,
            acked=stats.acked,
            nacked=stats.nacked,
            expired=stats.expired,
            exhausted=stats.exhausted,
            lag_ms=round(self._backlog.lag_s * 1000),
        )

    def _wanted(self) -> int:
        """Return how many messages to read now."""
        if self._backlog.exceeds(max(_LAG_S, self._markers.timeout_ms / 3_000)):
            return 0  # acknowledged messages could come back otherwise
        if self.breaker.is_open:
            return 0 if self._held.waiting or self.breaker.wait_s() else 1
        # Messages are not read one by one as others are acknowledged, because each read takes two round trips.
        return self._held.room if self._held.has_much_room or not self._held.waiting else 0

    async def _release(self, after_ms: int) -> None:
        """Release messages that were not handed out, without counting an attempt."""
        messages = self._held.take_back()
        if messages:
            self.stats.released += len(messages)
            with suppress(DelayError):  # then the start markers bring them back, as the next attempt
                await self._connection.send_all([self._markers.release(message, after_ms) for message in messages])

    def _expire(self) -> None:
        count = self._held.expire()
        self.stats.expired += count
        for _ in range(count):
            self.breaker.failed()

    async def _pause(self, seconds: float) -> None:
        """Wait for a change, a deadline or a probe, at most `seconds`."""
        now, deadline = time.monotonic(), self._held.next_deadline
        waits = [seconds, max(0.0, deadline - now) if deadline is not None else seconds]
        if self.breaker.wait_s():
            waits.append(self.breaker.wait_s())
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(waits)):
                await self._changed.wait()


async def _ended(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, and return when they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
