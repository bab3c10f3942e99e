"""Problems of requests with an idempotency key.

TypedProblem
├── KeyMalformed   the header is not a valid key
├── KeyReused      the key was used for another request
├── KeyInProgress  the first request with this key is in progress
├── KeysUnread     the server has not read all keys yet
├── KeyNotStored   Kafka has not stored the key
└── KeysUnwritable the disk cannot store keys
"""

from app.serve.web.problem import TypedProblem


class KeyMalformed(TypedProblem):
    """The header is not a valid key."""

    type_name = "idempotency-key"


class KeyReused(TypedProblem):
    """The key was used for another request."""

    type_name = "idempotency-key-reused"


class KeyInProgress(TypedProblem):
    """The first request with this key is in progress."""

    type_name = "in-progress"


class KeysUnread(TypedProblem):
    """The server has not read all keys yet."""

    type_name, soon_s = "keys-unread", 1


class KeyNotStored(TypedProblem):
    """Kafka has not stored the key."""

    type_name, soon_s = "kafka-unavailable", 2


class KeysUnwritable(TypedProblem):
    """The disk cannot store keys."""

    type_name, soon_s = "disk-full", 5

    def __init__(self, why: object) -> None:
        super().__init__(f"This server cannot store keys on its disk ({why}); try again, or use another server.")
