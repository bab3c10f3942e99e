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
    """A request is refused; each class has a problem's type, and the time after which another try may succeed."""

    type_name: ClassVar[str]
    retry_after_s: ClassVar[int | None] = None

    def __init__(self, sentence: str, retry_after_s: int | None = None) -> None:
        seconds = retry_after_s or self.retry_after_s
        super().__init__(self.type_name, sentence, headers={"Retry-After": str(seconds)} if seconds else {})


class KeyMalformed(KeyRefused):
    """The header is not a valid key."""

    type_name = "idempotency-key"


class KeyReused(KeyRefused):
    """The key was used for another request."""

    type_name = "idempotency-key-reused"


class KeyInProgress(KeyRefused):
    """The first request with this key is in progress."""

    type_name = "in-progress"


class KeysUnread(KeyRefused):
    """The server has not read all keys yet."""

    type_name, retry_after_s = "keys-unread", 1


class KeyNotStored(KeyRefused):
    """Kafka has not stored the key."""

    type_name, retry_after_s = "kafka-unavailable", 2


class KeysUnwritable(KeyRefused):
    """The disk cannot store keys."""

    type_name, retry_after_s = "disk-full", 5

    def __init__(self, why: object) -> None:
        super().__init__(f"This server cannot store keys on its disk ({why}); try again, or use another server.")
