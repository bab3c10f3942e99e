"""Reasons why a request with an idempotency key is refused.

KeyRefused
├── KeyMalformed   the header is not a valid key
├── KeyReused      the key was used for another request
├── KeyInProgress  the first request with this key is in progress
├── KeysUnread     the server has not read all keys yet
├── KeyNotStored   Kafka has not stored the key
└── KeysUnwritable the disk cannot store keys
"""


class KeyRefused(Exception):
    """A request is refused; `problem` is the problem type's name, `retry_after_s` the wait before another try."""

    problem = "idempotency-key"
    retry_after_s: int | None = None


class KeyMalformed(KeyRefused):
    """The header is not a valid key."""


class KeyReused(KeyRefused):
    """The key was used for another request."""

    problem = "idempotency-key-reused"

    def __init__(self) -> None:
        """Make an error that asks for a new key."""
        super().__init__("this Idempotency-Key was used for another request within the last day; use a new key")


class KeyInProgress(KeyRefused):
    """The first request with this key is in progress."""

    problem = "in-progress"

    def __init__(self, retry_after_s: int) -> None:
        """Make an error that asks for another try after `retry_after_s` seconds."""
        super().__init__("the first request with this Idempotency-Key is still in progress; try again for its answer")
        self.retry_after_s = retry_after_s


class KeysUnread(KeyRefused):
    """The server has not read all keys yet."""

    problem = "keys-unread"

    def __init__(self, retry_after_s: int) -> None:
        """Make an error that asks for another try after `retry_after_s` seconds."""
        super().__init__(
            "not all idempotency keys have been read here yet; try again, or use another worker or gateway"
        )
        self.retry_after_s = retry_after_s


class KeyNotStored(KeyRefused):
    """Kafka has not stored the key."""

    problem = "kafka-unavailable"
    retry_after_s = 2

    def __init__(self) -> None:
        """Make an error that asks for another try."""
        super().__init__("Kafka has not stored the idempotency key, so nothing was done; try again")


class KeysUnwritable(KeyRefused):
    """The disk cannot store keys."""

    problem = "spool-full"
    retry_after_s = 5

    def __init__(self, why: object) -> None:
        """Make an error with the reason `why`."""
        super().__init__(f"this server cannot store keys on its disk ({why}); try again, or use another server")
