"""Why a request with a key is not carried out.

KeyRefused
├── KeyMalformed   the header is no key
├── KeyReused      the key came with another request before
├── KeyInProgress  the request of this key is being carried out
├── KeysUnread     which keys there have been is not known yet
└── KeysUnwritable the disk does not take what is known of keys
"""


class KeyRefused(Exception):
    """A sentence; `problem` is its type's name, and one may come again after `retry_after_s` if there is one."""

    problem = "idempotency-key"
    retry_after_s: int | None = None


class KeyMalformed(KeyRefused):
    """The header is no key."""


class KeyReused(KeyRefused):
    """The key came with another request before."""

    problem = "idempotency-key-reused"

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("this Idempotency-Key was used for another request within the last day; use a new key")


class KeyInProgress(KeyRefused):
    """The request of this key is being carried out."""

    problem = "in-progress"

    def __init__(self, retry_after_s: int) -> None:
        """Say when its answer should be there."""
        super().__init__("the first request with this Idempotency-Key is still in progress; try again for its answer")
        self.retry_after_s = retry_after_s


class KeysUnread(KeyRefused):
    """Which keys there have been is not known yet."""

    problem = "keys-unread"

    def __init__(self, retry_after_s: int) -> None:
        """Say when to come again."""
        super().__init__("this gateway has not read all idempotency keys yet; try again, or use another gateway")
        self.retry_after_s = retry_after_s


class KeysUnwritable(KeyRefused):
    """The disk does not take what is known of keys."""

    problem = "spool-full"
    retry_after_s = 5

    def __init__(self, why: object) -> None:
        """Say why it does not."""
        super().__init__(f"the gateway cannot store keys on its disk ({why}); try again, or use another gateway")
