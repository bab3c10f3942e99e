"""The client for programs without an event loop: scripts, notebooks, Django views."""

import asyncio
import os
import threading
from collections.abc import Collection, Coroutine, Sequence
from concurrent.futures import CancelledError
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeVar, Unpack

from punctual.client.client import DelayClient
from punctual.client.errors import ClientClosedError, NotAcknowledgedError
from punctual.client.options import DelayOptions
from punctual.client.retries import DEFAULT_BACKOFF, Received
from punctual.contract.retry import Backoff
from punctual.encryption import Keyring

T = TypeVar("T")

#: TLS ends with an exchange, for which aiokafka does not wait: without this pause, sockets stay open until collected.
_FAREWELL_S: Final = 0.1


class SyncDelayClient:
    """DelayClient's methods as plain calls, on a thread of its own; safe to share between threads.

    It does not work in processes that were forked after it was opened, because they lack the thread: there all calls
    raise ClientClosedError, except for `close`, which has no effect. `close` ends calls in progress, in the worst case
    with NotAcknowledgedError.

    with SyncDelayClient("localhost:9092") as client:
        client.delay("reminders", {"order": 42}, after=timedelta(minutes=15))
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        app_id: str = "delay",
        partitions: int | None = None,
        inputs: Collection[str] = (),
        requests_topic: str | None = None,
        namespace: str = "",
        ack_timeout: timedelta = timedelta(seconds=30),
        encryption: Keyring | None = None,
        **kafka: Any,
    ) -> None:
        """Describe the installation, with DelayClient's arguments; `start` or `with` connects."""
        self._client = DelayClient(
            bootstrap_servers,
            app_id=app_id,
            partitions=partitions,
            inputs=inputs,
            requests_topic=requests_topic,
            namespace=namespace,
            ack_timeout=ack_timeout,
            encryption=encryption,
            **kafka,
        )
        self._topic = requests_topic or f"{app_id}-requests"
        self._protocol = str(kafka.get("security_protocol", ""))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        #: The process that has the thread.
        self._pid = 0
        #: Held while a call is passed to the loop, so that none is passed to a stopping loop, which would not answer.
        self._giving = threading.Lock()

    def start(self) -> None:
        """Connect. Raises what DelayClient.start raises."""
        if self._inherited:
            raise ClientClosedError(type(self).__name__, inherited=True)
        if self._loop is not None:
            return
        self._pid, self._loop = os.getpid(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="delay-client", daemon=True)
        self._thread.start()
        try:
            self._wait(self._client.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Send queued records and disconnect; has no effect if not started."""
        if self._inherited:
            return
        with self._giving:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        try:
            try:
                asyncio.run_coroutine_threadsafe(self._client.aclose(), loop).result()
            finally:
                asyncio.run_coroutine_threadsafe(_ended(tls="SSL" in self._protocol), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def __enter__(self) -> Self:
        """Connect."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self.close()

    def delay(self, to: object, value: object, **options: Unpack[DelayOptions]) -> str:
        """Have `value` delivered to topic `to` when it is due, and return the message's id; see DelayClient.delay."""
        return self._wait(self._client.delay(to, value, **options))

    def cancel(
        self,
        id: str,  # noqa: A002 - the contract's word
        *,
        if_due: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        """Remove the pending message `id`; see DelayClient.cancel."""
        self._wait(self._client.cancel(id, if_due=if_due, asked_at=asked_at))

    def reschedule(
        self,
        id: str,  # noqa: A002 - the contract's word
        *,
        at: datetime | None = None,
        after: timedelta | None = None,
        jitter: timedelta | None = None,
        if_due: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        """Give the pending message `id` a new due time; see DelayClient.reschedule."""
        self._wait(self._client.reschedule(id, at=at, after=after, jitter=jitter, if_due=if_due, asked_at=asked_at))

    def deliver_now(
        self,
        id: str,  # noqa: A002 - the contract's word
        *,
        if_due: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        """Make the pending message `id` due at once; see DelayClient.deliver_now."""
        self._wait(self._client.deliver_now(id, if_due=if_due, asked_at=asked_at))

    def pause_series(self, id: str, *, asked_at: datetime | None = None) -> None:  # noqa: A002 - the contract's word
        """Hold the recurring message `id` until `resume_series`; see DelayClient.pause_series."""
        self._wait(self._client.pause_series(id, asked_at=asked_at))

    def resume_series(self, id: str, *, asked_at: datetime | None = None) -> None:  # noqa: A002 - the contract's word
        """Have the recurring message `id` go on; see DelayClient.resume_series."""
        self._wait(self._client.resume_series(id, asked_at=asked_at))

    def retry(
        self,
        record: Received,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_attempts: int | None = None,
        to: object = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Have a record whose processing failed delivered again after a backoff; see DelayClient.retry."""
        self._wait(self._client.retry(record, backoff=backoff, max_attempts=max_attempts, to=to, error=error))

    def pause(
        self,
        destination: str,
        *,
        reason: str,
        by: str | None = None,
        until: datetime | None = None,
        rate: str | None = None,
    ) -> None:
        """Have all workers hold back due messages for `destination`; see DelayClient.pause."""
        self._wait(self._client.pause(destination, reason=reason, by=by, until=until, rate=rate))

    def limit(self, destination: str, rate: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Limit the rate of messages to `destination`; see DelayClient.limit."""
        self._wait(self._client.limit(destination, rate, reason=reason, by=by))

    def resume(self, destination: str) -> None:
        """Undo `pause` and `limit` for `destination`; see DelayClient.resume."""
        self._wait(self._client.resume(destination))

    @property
    def _inherited(self) -> bool:
        """Whether it was opened before this process was forked; its lock may then be held for ever."""
        return self._loop is not None and self._pid != os.getpid()

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        if self._inherited:
            call.close()
            raise ClientClosedError(type(self).__name__, inherited=True)
        with self._giving:
            if self._loop is None:
                call.close()
                raise ClientClosedError(type(self).__name__)
            given = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return given.result()
        except CancelledError as error:
            raise NotAcknowledgedError(self._topic, "the client was closed in the meantime") from error


async def _ended(*, tls: bool) -> None:
    """End all tasks of this loop, so that it can be closed."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.sleep(_FAREWELL_S if tls else 0)
