"""A real Apache Kafka for development: `Broker`, and `python -m punctual.dev`, which runs one until Ctrl-C.

The worker's distribution has the code, with the extra `dev`. docs/how-to/development-broker.md shows it.
"""

import sys
from typing import Any

from punctual.installing import module_of_worker

_NAMES = {
    "Broker",
    "BrokerError",
    "BrokerFailedError",
    "DataDirectoryError",
    "JarsUnavailableError",
    "JavaMissingError",
    "Node",
    "PortTakenError",
    "broker_or_given",
}
_REQUIREMENT = "punctual-kafka-worker[dev]"


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(module_of_worker("app.dev.broker", _REQUIREMENT), name)
    msg = f"module 'punctual.dev' has no attribute {name!r}"
    raise AttributeError(msg)


if __name__ == "__main__":
    try:
        sys.exit(module_of_worker("app.dev.broker.__main__", _REQUIREMENT).main())
    except ImportError as error:
        sys.exit(str(error))
