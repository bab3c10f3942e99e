"""`app.embedded`, the name of `punctual.dev` before 0.2.0; `python -m app.embedded` runs a broker."""

import sys
import warnings

from app.dev.broker import (
    Broker,
    BrokerError,
    BrokerFailedError,
    DataDirectoryError,
    JarsUnavailableError,
    JavaMissingError,
    Node,
    PortTakenError,
    broker_or_given,
)
from app.dev.broker.__main__ import main

__all__ = [
    "Broker",
    "BrokerError",
    "BrokerFailedError",
    "DataDirectoryError",
    "JarsUnavailableError",
    "JavaMissingError",
    "Node",
    "PortTakenError",
    "broker_or_given",
]

if __name__ == "__main__":
    sys.stderr.write("`python -m app.embedded` will be removed: use `punctual broker`.\n")
    sys.exit(main())
warnings.warn("app.embedded will be removed: import punctual.dev", DeprecationWarning, stacklevel=2)
