"""Problems of requests with an idempotency key.

KeyRefused
├── KeyMalformed   the header is not a valid key
├── KeyReused      the key was used for another request
├── KeyInProgress  the first request with this key is in progress
├── KeysUnread     the server has not read all keys yet
├── KeyNotStored   Kafka has not stored the key
└── KeysUnwritable the disk cannot store keys
"""

from typing import ClassVar

from app.serve.web.problem import Problem


class KeyRefused(Problem):
    """A request is refused; each class has a problem's type."""

    type_name: ClassVar[str]

    def __init__(self, sentence: str, retry_after_s: int | None = None) -> None:
        """Make a problem that asks for another try after `retry_after_s` seconds, if it is given."""
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        super().__init__(self.type_name, sentence, headers=headers)


class KeyMalformed(KeyRefused):
    """The header is not a valid key."""

    type_name = "idempotency-key"


class KeyReused(KeyRefused):
    """The key was used for another request."""

    type_name = "idempotency-key-reused"

    def __init__(self) -> None:
        """Make a problem that asks for a new key."""
        super().__init__("This Idempotency-Key was used for another request within the last day; use a new key.")


class KeyInProgress(KeyRefused):
    """The first request with this key is in progress."""

    type_name = "in-progress"

    def __init__(self, retry_after_s: int) -> None:
        """Make a problem that asks for another try after `retry_after_s` seconds."""
        sentence = "The first request with this Idempotency-Key is still in progress; try again for its answer."
        super().__init__(sentence, retry_after_s)


class KeysUnread(KeyRefused):
    """The server has not read all keys yet."""

    type_name = "keys-unread"

    def __init__(self) -> None:
        """Make a problem that asks for another try."""
        super().__init__("This server has not read all idempotency keys yet; try again, or use another server.", 1)


class KeyNotStored(KeyRefused):
    """Kafka has not stored the key."""

    type_name = "kafka-unavailable"

    def __init__(self) -> None:
        """Make a problem that asks for another try."""
        super().__init__("Kafka has not stored the idempotency key, so nothing was done; try again.", 2)


class KeysUnwritable(KeyRefused):
    """The disk cannot store keys."""

    type_name = "disk-full"

    def __init__(self, why: object) -> None:
        """Make a problem with the reason `why`."""
        super().__init__(f"This server cannot store keys on its disk ({why}); try again, or use another server.", 5)
