"""`app.retry(...)` and `@app.retryable(...)` as methods of a Faust app: failed events come back after a backoff."""

import asyncio
import logging
import sys
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeVar

from punctual.client.client import DelayClient
from punctual.client.errors import InvalidOptionError, KafkaUnreachableError, NotAcknowledgedError
from punctual.client.key_order import Attempts, KeyOrder
from punctual.client.retries import DEFAULT_BACKOFF, Received, check_most, counted, is_count
from punctual.contract.retry import Backoff

log = logging.getLogger(__name__)

Handler = TypeVar("Handler", bound=Callable[[Any], Awaitable[object]])

_AGAIN_S: Final = 1.0


class RetryMethods:
    """The methods of DelayMethods for events whose processing failed."""

    async def retry(
        self,
        event: Any,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_attempts: int | None = None,
        to: object = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Have a Faust event delivered again after a backoff, to its own topic or to the topic `to`; the agent goes on.

        Key, value and headers stay as they were received. After `max_attempts` the event becomes a dead letter
        `attempts-exhausted` that contains the `error`, by default the exception that is being handled. Returns once
        Kafka has the request, however long that takes: do not acknowledge the event before. See DelayClient.retry.
        """
        error = sys.exception() if error is None else error
        await self._request(event.message, backoff, max_attempts, to, error)

    async def _request(
        self,
        record: Received,
        backoff: Backoff,
        max_attempts: int | None,
        to: object,
        error: BaseException | str | None,
    ) -> None:
        """Return once Kafka has the request for a retry, however long that takes."""
        while True:
            try:
                client = await self._delay()
                await client.retry(record, backoff=backoff, max_attempts=max_attempts, to=to, error=error)
            except (KafkaUnreachableError, NotAcknowledgedError) as failed:
                log.warning("the retry of %s-%d at %d waits: %s", record.topic, record.partition, record.offset, failed)
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    def retryable(
        self,
        topic: Any,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_attempts: int | None = None,
        on: tuple[type[BaseException], ...] = (Exception,),
        to: object = None,
        order: Literal["key"] | None = None,
        max_unacked: int = 10_000,
        **agent: Any,
    ) -> Callable[[Handler], Handler]:
        """Make an agent of `async def handle(value)`: events for which it raises one of `on` are retried.

        An event is acknowledged once it was handled, or Kafka has the request for its retry: none is lost if the
        process dies before. Any other exception ends the agent as usual in Faust, and the event is not acknowledged.
        `agent`: options of `app.agent`, such as `name` and `concurrency`.
        With `order="key"`, events with the same key are always handled in order: an event that fails is tried again in
        place, by this process, while later events with its key wait and those with other keys are handled. Until it is
        done, no later event of its partition is committed: after a crash or a rebalance they are handled again, in
        order, with new attempts. At most `max_unacked` events are held in this way; then the agent reads no more until
        the first one is done. Any other exception ends the app. Raises InvalidOptionError.
        """
        attempts = Attempts(on, backoff, max_attempts)
        if order is not None:
            _check_order(order, max_attempts, max_unacked, to, agent)

        def decorate(handle: Handler) -> Handler:
            async def as_it_comes(stream: Any) -> None:
                stream = stream.noack()
                async for event in stream.events():
                    try:
                        await handle(event.value)
                    except on as error:
                        await self.retry(event, backoff=backoff, max_attempts=max_attempts, to=to, error=error)
                    await stream.ack(event)

            async def in_order(stream: Any) -> None:
                await self._work_in_order(stream, handle, attempts, max_unacked)

            options = {"name": f"{handle.__module__}.{handle.__qualname__}", **agent}
            work = as_it_comes if order is None else in_order
            self.agent(topic, **options)(work)  # type: ignore[attr-defined]  # faust.App's
            return handle

        return decorate

    async def _work_in_order(self, stream: Any, handle: Handler, attempts: Attempts, max_unacked: int) -> None:
        """Handle the events of an agent's stream in the order of their keys."""
        stream = stream.noack()
        order = KeyOrder(attempts, max_unacked, _OrderedAgent(self, stream, handle, attempts))

        async def forget(_: Any, revoked: set[Any], **_kwargs: Any) -> None:
            order.forget(revoked)

        revocation = self.on_partitions_revoked  # type: ignore[attr-defined]  # faust.App's
        revocation.connect(forget)
        try:
            async for event in stream.events():
                await order.take(event)
        finally:
            revocation.disconnect(forget)
            await order.aclose()

    async def _delay(self) -> DelayClient:
        raise NotImplementedError


class _OrderedAgent:
    """Handles the events of one agent's stream for a KeyOrder."""

    def __init__(self, app: Any, stream: Any, handle: Callable[[Any], Awaitable[object]], attempts: Attempts) -> None:
        """Handle the events of the app's stream with the function `handle`."""
        from faust.streams import _current_event  # noqa: PLC0415 - inside a Faust app it is loaded already

        self._app, self._stream, self._handle, self._attempts = app, stream, handle, attempts
        self._current: Any = _current_event

    @property
    def pausing(self) -> bool:
        """Whether a rebalance is in progress, or the app is stopping."""
        return bool(self._app.rebalancing or self._app.should_stop)

    async def handle(self, event: Any) -> None:
        """Handle an event; Faust waits for it before it revokes the partition, or stops."""
        self._app.consumer.unacked.add(event.message)
        # An event that has waited is not the stream's last one, which current_event() would return.
        self._current.set(weakref.ref(event))
        await self._handle(event.value)

    async def give_up(self, event: Any, failed: int, error: BaseException) -> None:
        """Make an event a dead letter after `failed` attempts."""
        record = counted(event.message, failed)
        await self._app._request(record, self._attempts.backoff, self._attempts.most, None, error)  # noqa: SLF001

    async def ack(self, event: Any) -> None:
        """Acknowledge an event."""
        await self._stream.ack(event)

    def rest(self, event: Any) -> None:
        """Stop Faust from waiting for an event, whose next attempt may be an hour away."""
        self._app.consumer.unacked.discard(event.message)

    async def crash(self, error: BaseException) -> None:
        """End the app. Otherwise Faust would go on with the next event before the app has ended.

        This does not call crash(), which ends all child services at once: the app, which commits before it ends, would
        wait for ever for the consumer's thread (mode/services.py, Service._crash).
        """
        log.critical("the app ends for an error after which no event is tried again", exc_info=error)
        root = self._app.beacon.root
        for service in (self._app, root and root.data):
            if service is not None and not service.crash_reason:
                service.crash_reason = error
                service._crashed.set()  # noqa: SLF001 - as crash() does for each
        await asyncio.Event().wait()


def _check_order(order: str, max_attempts: int | None, max_unacked: int, to: object, agent: dict[str, Any]) -> None:
    """Raise InvalidOptionError unless events can be handled in order."""
    if order != "key":
        raise InvalidOptionError(f"order={order!r} is not an order: give 'key', or None.")
    if to is not None or agent.get("concurrency", 1) != 1:
        raise InvalidOptionError("order='key' retries events in place, one at a time: leave out to and concurrency.")
    check_most(max_attempts)
    if not is_count(max_unacked):
        raise InvalidOptionError(f"max_unacked={max_unacked!r} is not a number of events: give 1 or more.")
