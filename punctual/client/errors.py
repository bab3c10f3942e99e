"""Errors of delaying a message, and what to do about them.

DelayError
├── InvalidRequestError (also a ValueError)   the arguments are not a valid request; it was not sent
│   ├── InvalidDestinationError
│   ├── InvalidDueTimeError
│   ├── InvalidIdError
│   ├── InvalidHeaderError
│   ├── InvalidValueError
│   └── InvalidOptionError
├── ClientClosedError                         the client is not started, or closed already; the request was not sent
├── KafkaUnreachableError                     no broker answered; the request was not sent
├── RequestsTopicMissingError                 no worker has created its topics yet; the request was not sent
├── PartitionCountError                       the installation has another number of partitions; no request was sent
├── NotAuthorizedError                        this user has no Write permission; the request is not stored
├── RequestTooLargeError                      the record is larger than Kafka accepts; the request is not stored
└── NotAcknowledgedError                      the outcome is unknown; sending again under the same id is safe
"""

from collections.abc import Sequence
from datetime import timedelta


class DelayError(Exception):
    """A message or a command was not accepted by Kafka."""


class InvalidRequestError(DelayError, ValueError):
    """The arguments are not a valid request; it was not sent."""


class InvalidDestinationError(InvalidRequestError):
    """The destination is not a valid topic, partition or cluster."""


class InvalidDueTimeError(InvalidRequestError):
    """The due time is missing, ambiguous or invalid."""


class InvalidIdError(InvalidRequestError):
    """The id is not 1 to 256 bytes of UTF-8."""


class InvalidHeaderError(InvalidRequestError):
    """A user header cannot be sent."""


class InvalidValueError(InvalidRequestError):
    """The key or value cannot be turned into bytes without guessing."""


class InvalidOptionError(InvalidRequestError):
    """An option of the client or of the message has an invalid value."""


class ClientClosedError(DelayError):
    """The client is not started, or closed already; the request was not sent."""

    def __init__(self, name: str, *, inherited: bool = False) -> None:
        """Name the client's class; `inherited` means that the client was open before a fork."""
        super().__init__(
            f"This client was opened in another process, before a fork: create a new {name}(...) in this process."
            if inherited
            else f"This client is not open: write `async with {name}(...) as client:`, or call start() first."
        )


class KafkaUnreachableError(DelayError):
    """No broker answered; the request was not sent."""

    def __init__(self, servers: str | Sequence[str], cause: object) -> None:
        """Name the addresses and the error of Kafka's client."""
        shown = servers if isinstance(servers, str) else ", ".join(servers)
        super().__init__(
            f"No Kafka broker answers at {shown} ({cause}): check the address, the security options and that "
            "the broker runs (`make kafka` starts one for development)."
        )

    @classmethod
    def after(cls, servers: str | Sequence[str], seconds: float) -> "KafkaUnreachableError":
        """Name the addresses, and how long the client waited."""
        return cls(servers, f"no answer within {seconds:g} s")


class RequestsTopicMissingError(DelayError):
    """No worker has created the installation's topics yet; the request was not sent."""

    def __init__(self, topic: str) -> None:
        """Name the missing topic."""
        super().__init__(
            f"The topic {topic} does not exist, or this user has no permission to see it: start a worker first "
            "(`faust -A app worker`), it creates the topic; "
            "or give the app_id of the installation that runs here (its DELAY_APP_ID)."
        )
        self.topic = topic


class PartitionCountError(DelayError):
    """The installation has another number of partitions than expected; no request was sent."""

    def __init__(self, topic: str, expected: int, actual: int) -> None:
        """Name the topic and both numbers."""
        super().__init__(
            f"The topic {topic} has {actual} partitions, not {expected}: give partitions={actual}, or leave it out, "
            "or check that this is the right cluster and app_id."
        )
        self.topic, self.expected, self.actual = topic, expected, actual


class NotAuthorizedError(DelayError):
    """This user has no permission to write requests; the request is not stored."""

    def __init__(self, topic: str, cause: object) -> None:
        """Name the topic and Kafka's error."""
        super().__init__(
            f"This user has no permission to write to {topic} ({cause}): grant it WRITE and DESCRIBE on the topic, or "
            "check the credentials given to the client."
        )


class RequestTooLargeError(DelayError):
    """The record is larger than Kafka accepts; the request is not stored."""

    def __init__(self, topic: str, cause: object) -> None:
        """Name the topic and Kafka's error."""
        super().__init__(
            f"The request is too large for {topic} ({cause}): send less, or raise max_request_size here and "
            "max.message.bytes of the topic."
        )


class NotAcknowledgedError(DelayError):
    """The outcome is unknown: the record may be stored now, later or never. Sending it again with its id is safe."""

    def __init__(self, topic: str, cause: object) -> None:
        """Name the topic and the reason."""
        super().__init__(
            f"Kafka has not acknowledged the record on {topic} ({cause}): it may be stored or not. Send it again with "
            "the same id, which replaces the pending message and never duplicates it. This needs ids of your own."
        )

    @classmethod
    def after(cls, topic: str, waited: timedelta) -> "NotAcknowledgedError":
        """Say how long the client waited."""
        return cls(topic, f"no answer within {waited.total_seconds():g} s")
