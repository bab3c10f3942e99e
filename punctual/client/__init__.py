"""The clients, their options and their errors; `punctual` has the same names."""

from punctual.client.client import DelayClient
from punctual.client.errors import (
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
from punctual.client.options import DelayOptions, IfLate
from punctual.client.sync import SyncDelayClient

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
