"""`app.delay(...)`, `app.cancel(...)` and the client's other methods as methods of a Faust app."""

import asyncio
from datetime import datetime, timedelta
from typing import Any, Unpack

from punctual.client.client import DelayClient
from punctual.client.faust_retries import RetryMethods
from punctual.client.options import DelayOptions
from punctual.encryption import Keyring


class DelayMethods(RetryMethods):
    """Gives any faust.App the client's methods; the connection opens with the first call and closes with the app.

        class Shop(DelayMethods, faust.App): ...

        app = Shop("shop", broker="kafka://localhost:9092")

        @app.agent(orders)
        async def remind(orders):
            async for order in orders:
                await app.delay("reminders", order, after=timedelta(hours=1), id=f"reminder-{order.id}")

    The broker's address and credentials are the app's own; `delay_app_id` names the installation.
    """

    delay_app_id: str = "delay"
    """The installation's app id: the worker's DELAY_APP_ID."""

    delay_encryption: Keyring | None = None
    """Keys by which `delay` encrypts values, if it does."""

    _delay_client: DelayClient | None = None
    _delay_starting: asyncio.Lock | None = None

    async def delay(self, to: object, value: object, **options: Unpack[DelayOptions]) -> str:
        """Have `value` delivered to topic `to` when it is due, and return the message's id; see DelayClient.delay."""
        return await (await self._delay()).delay(to, value, **options)

    async def cancel(
        self,
        id: str,  # noqa: A002 - the contract's word
        *,
        if_due: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        """Remove the pending message `id`; see DelayClient.cancel."""
        await (await self._delay()).cancel(id, if_due=if_due, asked_at=asked_at)

    async def reschedule(
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
        await (await self._delay()).reschedule(id, at=at, after=after, jitter=jitter, if_due=if_due, asked_at=asked_at)

    async def deliver_now(
        self,
        id: str,  # noqa: A002 - the contract's word
        *,
        if_due: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        """Make the pending message `id` due at once; see DelayClient.deliver_now."""
        await (await self._delay()).deliver_now(id, if_due=if_due, asked_at=asked_at)

    async def pause_series(self, id: str, *, asked_at: datetime | None = None) -> None:  # noqa: A002 - the contract's word
        """Hold the recurring message `id` until `resume_series`; see DelayClient.pause_series."""
        await (await self._delay()).pause_series(id, asked_at=asked_at)

    async def resume_series(self, id: str, *, asked_at: datetime | None = None) -> None:  # noqa: A002 - the contract's word
        """Have the recurring message `id` go on; see DelayClient.resume_series."""
        await (await self._delay()).resume_series(id, asked_at=asked_at)

    async def aclose(self) -> None:
        """Send queued records and disconnect; the next call connects again."""
        client, self._delay_client = self._delay_client, None
        if client is not None:
            await client.aclose()

    async def on_stop(self) -> None:
        """Disconnect when the app stops, after the events in progress."""
        await super().on_stop()  # type: ignore[misc]  # faust.App's, which stands behind this class
        await self.aclose()

    def make_delay_client(self) -> DelayClient:
        """Return the client to use; override it to pass other options."""
        # Inside a Faust app, Faust is loaded already; outside, this module must not load it.
        from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth  # noqa: PLC0415

        conf: Any = self.conf  # type: ignore[attr-defined]  # faust.App's
        servers = [f"{url.host}:{url.port or 9092}" for url in conf.broker]
        auth = credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context)
        return DelayClient(servers, app_id=self.delay_app_id, encryption=self.delay_encryption, **auth)

    async def _delay(self) -> DelayClient:
        if self._delay_client is not None:
            return self._delay_client
        self._delay_starting = self._delay_starting or asyncio.Lock()
        async with self._delay_starting:
            if self._delay_client is None:
                client = self.make_delay_client()
                await client.start()
                self._delay_client = client
        return self._delay_client
