"""A message of a queue, which a program acknowledges."""

from datetime import timedelta
from typing import Protocol

from punctual.client.user_headers import RawHeader


class Keeper(Protocol):
    """The receiver of a message's acknowledgements: its queue."""

    async def settle(self, message: "Message") -> None:
        """Settle a message that was processed."""

    async def refuse(self, message: "Message", delay: timedelta | None, error: BaseException | str | None) -> None:
        """Settle a message that has failed."""

    async def prolong(self, message: "Message", by: timedelta) -> None:
        """Extend the deadline of a message."""


class Message:
    """A record of the queue's topic; key, value and headers are unchanged.

    `attempt` is the number of the attempt; `id` is the id of its marker; `deadline` is when it comes back without an
    acknowledgement, by the queue's clock.
    """

    __slots__ = (
        "_keeper",
        "attempt",
        "deadline",
        "done",
        "headers",
        "id",
        "key",
        "offset",
        "partition",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(  # noqa: PLR0913 - a field each
        self,
        keeper: Keeper,
        *,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[RawHeader, ...],
        attempt: int,
        id: str,  # noqa: A002 - the contract's word
        deadline: float,
    ) -> None:
        """Copy the fields of a record; `keeper` receives the acknowledgement."""
        self._keeper = keeper
        self.topic, self.partition, self.offset, self.timestamp = topic, partition, offset, timestamp
        self.key, self.value, self.headers = key, value, headers
        self.attempt, self.id, self.deadline = attempt, id, deadline
        self.done = False

    def __repr__(self) -> str:
        return f"<Message {self.topic}-{self.partition}-{self.offset}, attempt {self.attempt}>"

    async def ack(self) -> None:
        """Report success, so that it does not come back. Does not wait for Kafka; a second call has no effect."""
        await self._keeper.settle(self)

    async def nack(self, delay: timedelta | None = None, error: BaseException | str | None = None) -> None:
        """Report failure: it comes back after `delay`, by default after the queue's backoff.

        After the last attempt it becomes a dead letter `attempts-exhausted`, which contains the `error`.
        """
        await self._keeper.refuse(self, delay, error)

    async def extend(self, by: timedelta) -> None:
        """Extend the deadline: without an acknowledgement, it comes back `by` after now.

        Returns once Kafka has that. Raises NotAcknowledgedError: it may come back at its former deadline.
        """
        await self._keeper.prolong(self, by)
