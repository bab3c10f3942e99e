"""`app.retry(...)` and `@app.retryable(...)` as methods of a Faust app: failed events come back after a backoff."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from punctual.client.client import DelayClient
from punctual.client.errors import KafkaUnreachableError, NotAcknowledgedError
from punctual.client.retries import DEFAULT_BACKOFF
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
        while True:
            try:
                client = await self._delay()
                await client.retry(event.message, backoff=backoff, max_attempts=max_attempts, to=to, error=error)
            except (KafkaUnreachableError, NotAcknowledgedError) as failed:
                log.warning("the retry of %s at %d waits: %s", event.message.tp, event.message.offset, failed)
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
        **agent: Any,
    ) -> Callable[[Handler], Handler]:
        """Make an agent of `async def handle(value)`: events for which it raises one of `on` are retried.

        An event is acknowledged when it was handled, or Kafka has the request for its retry: none is lost if the
        process dies between. Any other exception ends the agent as Faust does it, and the event is not acknowledged.
        `agent`: options of `app.agent`, such as `name` and `concurrency`.
        """

        def decorate(handle: Handler) -> Handler:
            async def work(stream: Any) -> None:
                stream = stream.noack()
                async for event in stream.events():
                    try:
                        await handle(event.value)
                    except on as error:
                        await self.retry(event, backoff=backoff, max_attempts=max_attempts, to=to, error=error)
                    await stream.ack(event)

            options = {"name": f"{handle.__module__}.{handle.__qualname__}", **agent}
            self.agent(topic, **options)(work)  # type: ignore[attr-defined]  # faust.App's
            return handle

        return decorate

    async def _delay(self) -> DelayClient:
        raise NotImplementedError
