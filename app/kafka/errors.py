"""Errors of a send.

SendError ├── TopicUnknown    the topic or partition does not exist, even after a while │   └── PartitionGone   the
topic exists, with fewer partitions ├── TooLarge        the batch is larger than the topic allows ├── NotAuthorised
the cluster's ACLs forbid it ├── BatchRejected   the broker finds the records invalid │   └── InvalidRecord   a record
has no key, and the topic is compacted ├── GaveUp          it has failed for longer than the sender wants to wait └──
Recalled        an earlier batch has failed; this one was not sent
"""

import aiokafka.errors as kafka

_INVALID_RECORD = 87  # unknown to aiokafka


class SendError(Exception):
    """A batch that will never be accepted; the message has the cause and what to do."""


class TopicUnknown(SendError):
    """The topic or partition does not exist, even after a while."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name the missing partition."""
        super().__init__(f"topic {topic} partition {partition} does not exist. Create it, then send the message again.")


class PartitionGone(TopicUnknown):
    """The topic exists, with fewer partitions: it was created again. Another partition may accept the records."""


class TooLarge(SendError):
    """The batch is larger than the topic allows."""

    def __init__(self, topic: str) -> None:
        """Name the topic."""
        super().__init__(
            f"the message is larger than topic {topic} accepts. Raise its max.message.bytes. Then send the message "
            "again."
        )


class NotAuthorised(SendError):
    """The cluster's ACLs forbid it."""

    def __init__(self, topic: str) -> None:
        """Name the topic."""
        super().__init__(
            f"this worker has no permission to write to topic {topic}. Grant WRITE to its principal, then send the "
            "message again."
        )


class BatchRejected(SendError):
    """The broker finds the records invalid."""

    def __init__(self, topic: str, error: str) -> None:
        """Name the topic and the broker's error."""
        super().__init__(f"topic {topic} refuses the message: {error}. Change the message or the topic's settings.")


class InvalidRecord(BatchRejected):
    """A record has no key, and the topic is compacted: brokers cannot find other faults in batches built here."""

    def __init__(self, topic: str) -> None:
        """Name the topic."""
        SendError.__init__(
            self,
            f"topic {topic} is compacted, but the message has no key. Send it with a key, or set the topic's "
            "cleanup.policy to delete.",
        )


class GaveUp(SendError):
    """The send has failed for longer than the sender wants to wait."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name the failing partition."""
        super().__init__(
            f"topic {topic} partition {partition} has accepted no messages for longer than DELAY_GIVE_UP. Find out "
            "why its brokers refuse them. Then send the message again."
        )


class Recalled(SendError):
    """An earlier batch has failed; this one was not sent."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name the failing partition."""
        super().__init__(f"topic {topic} partition {partition} accepts no messages at the moment.")


def permanent(topic: str, code: int) -> SendError | None:
    """Return the permanent error for a broker's error code, or None if another try may succeed."""
    error = kafka.for_code(code)
    if error in (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError):
        return TooLarge(topic)
    if error is kafka.TopicAuthorizationFailedError:
        return NotAuthorised(topic)
    if code == _INVALID_RECORD:
        return InvalidRecord(topic)
    if error in (kafka.InvalidTopicError, kafka.InvalidTimestampError, kafka.PolicyViolationError):
        return BatchRejected(topic, error.__name__)
    return None
