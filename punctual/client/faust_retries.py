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
from punctual.client.retries import DEFAULT_BACKOFF, Received, counted, is_count
from punctual.contract.retry import Backoff

log = logging.getLogger(__name__)

Handler = TypeVar("Handler", bound=Callable[[Any], Awaitable[object]])

_AGAIN_S: Final = 1.0


class RetryMethods:
    """What DelayMethods gives a Faust app for events whose processing failed."""

    async def retry(
        self,
        event: Any,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_attempts: int | None = None,
        to: object = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Have a Faust event delivered again after a backoff, to its own topic or `to` another; the agent goes on.

        Key, value and headers stay as they were received. After `max_attempts` the event becomes a dead letter
        `attempts-exhausted` that tells the `error`, by default the exception that is being handled. Returns once Kafka
        has it, however long that takes: before, the event must not be acknowledged. See DelayClient.retry.
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

        An event is acknowledged when it was handled, or Kafka has the request for its retry: none is lost if the
        process dies between. Any other exception ends the agent as Faust does it, and the event is not acknowledged.
        `agent`: options of `app.agent`, such as `name` and `concurrency`.

        With `order="key"` no event is handled before those of its key that came earlier are: one that fails is tried
        again where it is, by this process, while later events of its key wait and those of others are handled. Until
        it is done none after it in its partition is committed: a crash or a rebalance has them handled again, in
        order, and attempts counted anew. `max_unacked` events are held that way, then the agent reads no more until
        the first is done. Any other exception ends the app. Raises InvalidOptionError.
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
        from faust.streams import _current_event  # noqa: PLC0415 - inside a Faust app it is loaded already

        stream = stream.noack()

        async def handle_one(event: Any) -> None:
            # One that has waited is not the last that the stream has given, which current_event() would tell.
            _current_event.set(weakref.ref(event))
            await handle(event.value)

        async def give_up(event: Any, failed: int, error: BaseException) -> None:
            await self._request(counted(event.message, failed), attempts.backoff, attempts.most, None, error)

        async def crash(error: BaseException) -> None:
            await self.crash(error)  # type: ignore[attr-defined]  # faust.App's
            await asyncio.Event().wait()  # Faust would begin anew with the next event before the app has ended

        order = KeyOrder(
            attempts,
            max_unacked,
            handle=handle_one,
            give_up=give_up,
            ack=stream.ack,
            crash=crash,
        )

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


def _check_order(order: str, max_attempts: int | None, max_unacked: int, to: object, agent: dict[str, Any]) -> None:
    """Raise InvalidOptionError unless events can be handled in order."""
    if order != "key":
        raise InvalidOptionError(f"order={order!r} is no order: give 'key', or None.")
    if to is not None or agent.get("concurrency", 1) != 1:
        raise InvalidOptionError("order='key' tries events again where they are, one by one: leave to and concurrency.")
    if max_attempts is not None and not is_count(max_attempts):
        raise InvalidOptionError(f"max_attempts={max_attempts!r} is no number of attempts: give 1 or more, or None.")
    if not is_count(max_unacked):
        raise InvalidOptionError(f"max_unacked={max_unacked!r} is no number of events: give 1 or more.")
