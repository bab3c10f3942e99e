"""Errors of the development broker; each message says the cause and what to do.

BrokerError
├── JavaMissingError       no Java that can run Kafka
├── JarsUnavailableError   Kafka's jars could not be fetched, or are not the pinned ones
├── PortTakenError         something else listens on the port
├── DataDirectoryError     the data directory is not usable
└── BrokerFailedError      Kafka exited, or did not answer in time
"""

from punctual.installing import install_command

#: How to get the packages that fetch Kafka's jars and bring a Java.
INSTALL_DEV = f"In a checkout, run `make install`. Elsewhere: {install_command('punctual-kafka-worker[dev]')}"


class BrokerError(Exception):
    """Base of all deliberate errors of this package."""


class JavaMissingError(BrokerError):
    """No Java of the needed version was found."""


class JarsUnavailableError(BrokerError):
    """Kafka's jars could not be fetched, or differ from the pinned ones."""


class PortTakenError(BrokerError):
    """Another process listens on the requested port."""


class DataDirectoryError(BrokerError):
    """The data directory belongs to another program or broker, is damaged or is in use."""


class BrokerFailedError(BrokerError):
    """Kafka exited, or did not answer in time."""
