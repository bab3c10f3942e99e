"""Where deliveries go: a cluster, and what sends to it."""

from typing import NamedTuple

from app.kafka import Cluster, Sender


class Target(NamedTuple):
    """A destination cluster."""

    cluster: Cluster
    sender: Sender
