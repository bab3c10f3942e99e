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
