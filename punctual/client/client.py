"""The asyncio client: schedules messages, and cancels, moves, pauses and retries them."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, Unpack

from punctual.client.connection import Connection
from punctual.client.controls import control, no_control
from punctual.client.errors import ClientClosedError, NotAcknowledgedError
from punctual.client.options import DelayOptions
from punctual.client.requests import Request, command, encrypted, schedule
from punctual.client.retries import DEFAULT_BACKOFF, Received, retry
from punctual.contract.retry import Backoff
from punctual.encryption import Keyring


class DelayClient:
    """Delays messages through one installation; safe for any number of tasks of one event loop.

    Every method returns once all in-sync replicas have the record, and from then on the worker's guarantees hold.
    Later outcomes (an unknown topic, a command for a message that is gone) are in the events and dead letters, and are
    not raised here.

        async with DelayClient("localhost:9092") as client:
            reminder = await client.delay("reminders", {"order": 42}, after=timedelta(minutes=15))
            await client.cancel(reminder)
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
        """Describe the installation; `start` or `async with` connects.

        `bootstrap_servers`: "host:port", several separated by commas, or a list. `app_id`: the worker's DELAY_APP_ID.
        `partitions`: the expected number of partitions, checked at start; None accepts any number. `inputs`: further
        input topics whose automatic ids get commands, so that those go home directly (without it they are forwarded).
        `requests_topic`: the input for requests and commands, if it is not the default, such as a team's own topic, and
        its `namespace` (DELAY_NAMESPACES): so that ids go home directly, and have their full names here. `ack_timeout`:
        how long one call waits for Kafka. `encryption`: keys with which `delay` encrypts values, so that only
        `Keyring.decrypt` can read them (docs/how-to/encrypt.md). `kafka`: options of aiokafka's producer, such as TLS
        and SASL.
        """
        self._expected_partitions, self._encryption = partitions, encryption
        topic = requests_topic or f"{app_id}-requests"
        self._connection = Connection(bootstrap_servers, topic, inputs, ack_timeout, kafka, namespace)
        #: Opened on first use, because few programs pause a destination.
        self._controls = Connection(bootstrap_servers, f"{app_id}-controls", (), ack_timeout, kafka)
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Connect. Raises KafkaUnreachableError, RequestsTopicMissingError or PartitionCountError."""
        if not self._connection.is_open:
            await self._connection.open(self._expected_partitions)

    async def aclose(self) -> None:
        """Send queued records and disconnect; has no effect if not started."""
        await self._connection.close()
        await self._controls.close()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await self.aclose()

    async def delay(self, to: object, value: object, **options: Unpack[DelayOptions]) -> str:
        """Have `value` delivered to topic `to` when it is due, and return the message's id.

        `value`: bytes are sent unchanged, str as UTF-8, None as null, a Faust record through its serializer, other
        values as compact JSON. `options`: `at` or `after`, and the others in DelayOptions. Raises an
        InvalidRequestError, NotAcknowledgedError, RequestTooLargeError or RequestsTopicMissingError.
        """
        request = schedule(to, value, **options)
        if self._encryption is not None:
            request = encrypted(request, self._encryption)
        partition, offset = await self._send(request)
        if request.id is not None:
            return self._connection.full(request.id).decode()
        if offset < 0:
            # For a retried batch Kafka confirms the records without their offset: only the automatic id is lost.
            raise NotAcknowledgedError(self._connection.topic, "stored, but Kafka did not return its offset")
        return f"{self._connection.topic}-{partition}-{offset}"

    async def cancel(
        self,
        id: str,  # noqa: A002 - the contract's word
        *,
        if_due: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        """Remove the pending message `id`; with `if_due`, only if it is due exactly then.

        It works if acknowledged well before the due time; an event `cancelled`, `conflict`, `unknown` or `stale` shows
        the outcome. `asked_at`: when the cancel was really requested, if it is sent later.
        """
        await self._send(command("cancel", id, if_due=if_due, asked_at=asked_at))

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
        """Give the pending message `id` a new due time, `at` or `after`; its content stays.

        With `if_due`, only if it is due exactly then; with `jitter`, at a random moment within that time after it.
        """
        await self._send(command("reschedule", id, at=at, after=after, jitter=jitter, if_due=if_due, asked_at=asked_at))

    async def deliver_now(
        self,
        id: str,  # noqa: A002 - the contract's word
        *,
        if_due: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> None:
        """Make the pending message `id` due at once; with `if_due`, only if it is due exactly then."""
        await self._send(command("deliver-now", id, if_due=if_due, asked_at=asked_at))

    async def pause_series(self, id: str, *, asked_at: datetime | None = None) -> None:  # noqa: A002 - the contract's word
        """Hold the recurring message `id`: no occurrence is delivered until `resume_series`."""
        await self._send(command("pause", id, asked_at=asked_at))

    async def resume_series(self, id: str, *, asked_at: datetime | None = None) -> None:  # noqa: A002 - the contract's word
        """Resume the recurring message `id` with its next planned occurrence."""
        await self._send(command("resume", id, asked_at=asked_at))

    async def retry(
        self,
        record: Received,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        max_attempts: int | None = None,
        to: object = None,
        error: BaseException | str | None = None,
    ) -> None:
        """Have a received record whose processing failed delivered again after a backoff.

        It goes back to its own topic, or to the topic `to`, with its key, value and headers, and with `delay-attempt`.
        After `max_attempts` it becomes a dead letter `attempts-exhausted` that contains the `error`. A record that is
        sent for retry twice is delivered once, if the first retry is still pending.
        """
        await self._send(retry(record, backoff=backoff, max_attempts=max_attempts, to=to, error=error))

    async def pause(
        self,
        destination: str,
        *,
        reason: str,
        by: str | None = None,
        until: datetime | None = None,
        rate: str | None = None,
    ) -> None:
        """Have all workers hold back due messages for `destination`, within a second, until `resume` or `until`.

        `destination`: a topic, "cluster/topic", or the origin of URLs. `reason` and `by` are for people to read; `rate`
        is a rate limit that replaces the settings', "20/s burst 100", or "none". The last call for a destination
        replaces earlier ones completely. Raises an InvalidRequestError, NotAuthorizedError or NotAcknowledgedError.
        """
        await self._control(control(destination, paused=True, reason=reason, by=by, until=until, rate=rate))

    async def limit(self, destination: str, rate: str, *, reason: str | None = None, by: str | None = None) -> None:
        """Limit the rate of messages to `destination`, "20/s burst 100" or "none", instead of the settings' limit."""
        await self._control(control(destination, paused=False, reason=reason, by=by, rate=rate))

    async def resume(self, destination: str) -> None:
        """Undo `pause` and `limit` for `destination`: only the settings apply again."""
        await self._control(no_control(destination))

    async def _control(self, record: Request) -> None:
        if not self._connection.is_open:
            raise ClientClosedError(type(self).__name__)
        async with self._opening:
            if not self._controls.is_open:
                await self._controls.open(None)
        await self._controls.send(record)

    async def _send(self, request: Request) -> tuple[int, int]:
        if not self._connection.is_open:
            raise ClientClosedError(type(self).__name__)
        return await self._connection.send(request)
