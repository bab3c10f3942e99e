"""A message as a program gets it, to be acknowledged by itself."""

from datetime import timedelta
from typing import Protocol

from punctual.client.user_headers import RawHeader


class Keeper(Protocol):
    """What a message's words go to: its queue."""

    async def settle(self, message: "Message") -> None:
        """Hear that a message was processed."""

    async def refuse(self, message: "Message", delay: timedelta | None, error: BaseException | str | None) -> None:
        """Hear that it has failed."""

    async def prolong(self, message: "Message", by: timedelta) -> None:
        """Hear that it takes longer."""


class Message:
    """A record of the queue's topic; key, value and headers are as they were received.

    `attempt` says which attempt at it this is; `id` is that of its marker; `deadline` is when it comes back if nothing
    is heard of it, by the queue's clock.
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
        """Take what a record has; `keeper` hears what becomes of it."""
        self._keeper = keeper
        self.topic, self.partition, self.offset, self.timestamp = topic, partition, offset, timestamp
        self.key, self.value, self.headers = key, value, headers
        self.attempt, self.id, self.deadline = attempt, id, deadline
        self.done = False

    def __repr__(self) -> str:
        return f"<Message {self.topic}-{self.partition}-{self.offset}, attempt {self.attempt}>"

    async def ack(self) -> None:
        """Say that it was processed: it does not come back. Does not wait for Kafka; again, it does nothing."""
        await self._keeper.settle(self)

    async def nack(self, delay: timedelta | None = None, error: BaseException | str | None = None) -> None:
        """Say that it failed: it comes back after `delay`, by default after the queue's backoff.

        After the last attempt it is a dead letter `attempts-exhausted`, which tells the `error`.
        """
        await self._keeper.refuse(self, delay, error)

    async def extend(self, by: timedelta) -> None:
        """Say that it takes longer: it comes back `by` so much from now on, if nothing more is heard of it.

        Returns once Kafka has that. Raises NotAcknowledgedError: it may come back when it would have.
        """
        await self._keeper.prolong(self, by)
