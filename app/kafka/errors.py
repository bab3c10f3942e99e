"""What a send can end in.

SendError
├── TopicUnknown    the topic or partition is not there, and stays away
│   └── PartitionGone   the topic is there, with fewer partitions
├── TooLarge        the batch is larger than the topic allows
├── NotAuthorised   the cluster's ACLs forbid it
├── BatchRejected   the broker finds the records invalid
│   └── InvalidRecord   one has no key, and the topic is compacted
├── GaveUp          it has failed for longer than the sender wants to wait
└── Recalled        a batch before it has failed; it was not sent
"""

import aiokafka.errors as kafka

_INVALID_RECORD = 87  # unknown to aiokafka


class SendError(Exception):
    """A batch that will never be taken; the message says why and what to do."""


class TopicUnknown(SendError):
    """The topic or partition is not there, and stays away."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name what is missing."""
        super().__init__(f"topic {topic} partition {partition} does not exist. Create it, then send the message again.")


class PartitionGone(TopicUnknown):
    """The topic is there, with fewer partitions: it was created again. Another partition may take the records."""


class TooLarge(SendError):
    """The batch is larger than the topic allows."""

    def __init__(self, topic: str) -> None:
        """Name the topic that refuses."""
        super().__init__(
            f"the message is larger than topic {topic} accepts. Raise its max.message.bytes. Then send the message "
            "again."
        )


class NotAuthorised(SendError):
    """The cluster's ACLs forbid it."""

    def __init__(self, topic: str) -> None:
        """Name the topic that refuses."""
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
    """A record has no key, and the topic is compacted: brokers find nothing else invalid in what is sent here."""

    def __init__(self, topic: str) -> None:
        """Name the topic that refuses."""
        SendError.__init__(
            self,
            f"topic {topic} is compacted, but the message has no key. Send it with a key, or set the topic's "
            "cleanup.policy to delete.",
        )


class GaveUp(SendError):
    """It has failed for longer than the sender wants to wait."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name the partition that does not take messages."""
        super().__init__(
            f"topic {topic} partition {partition} has accepted no messages for longer than DELAY_GIVE_UP. Find out "
            "why its brokers refuse them. Then send the message again."
        )


class Recalled(SendError):
    """A batch before it has failed; it was not sent."""

    def __init__(self, topic: str, partition: int) -> None:
        """Name the partition that does not take messages."""
        super().__init__(f"topic {topic} partition {partition} accepts no messages at the moment.")


def permanent(topic: str, code: int) -> SendError | None:
    """Return the failure that a broker's error code means, or None if another try may succeed."""
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
