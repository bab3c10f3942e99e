"""Delay messages from Python: `DelayClient` for asyncio, `SyncDelayClient` for all other programs.

The package is all that a program needs to talk to Punctual. It is quick to import: it loads neither Faust nor the
worker, and Kafka's client only when a client connects.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from punctual.client.retries import exponential
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
    "exponential",
]

_FROM = {
    "DelayClient": "client",
    "DelayOptions": "options",
    "IfLate": "options",
    "SyncDelayClient": "sync",
    "exponential": "retries",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module 'punctual' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"punctual.client.{_FROM.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
