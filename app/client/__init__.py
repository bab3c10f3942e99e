"""Delay messages from Python: `DelayClient` for asyncio, `SyncDelayClient` for everything else.

Light to import: neither Faust nor the worker's engine is loaded, and Kafka's client only when one connects.
"""

from app.client.client import DelayClient
from app.client.errors import (
    ClientClosedError,
    DelayError,
    InvalidDestinationError,
    InvalidDueTimeError,
    InvalidHeaderError,
    InvalidIdError,
    InvalidOptionError,
    InvalidRequestError,
    InvalidValueError,
    KafkaUnreachableError,
    NotAcknowledgedError,
    NotAuthorizedError,
    PartitionCountError,
    RequestsTopicMissingError,
    RequestTooLargeError,
)
from app.client.options import DelayOptions, IfLate
from app.client.sync import SyncDelayClient

__all__ = [
    "ClientClosedError",
    "DelayClient",
    "DelayError",
    "DelayOptions",
    "IfLate",
    "InvalidDestinationError",
    "InvalidDueTimeError",
    "InvalidHeaderError",
    "InvalidIdError",
    "InvalidOptionError",
    "InvalidRequestError",
    "InvalidValueError",
    "KafkaUnreachableError",
    "NotAcknowledgedError",
    "NotAuthorizedError",
    "PartitionCountError",
    "RequestTooLargeError",
    "RequestsTopicMissingError",
    "SyncDelayClient",
]
