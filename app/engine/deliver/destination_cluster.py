"""Destination clusters, each with its sender."""

import logging
from typing import NamedTuple

import aiokafka.errors

from app.kafka import Cluster, Sender
from app.settings.kafka import KafkaSettings
from punctual.security.reason import reason

log = logging.getLogger(__name__)


class DestinationCluster(NamedTuple):
    """A destination cluster and the sender for it."""

    cluster: Cluster
    sender: Sender


async def connect(name: str, bootstrap: str, kafka: KafkaSettings) -> DestinationCluster:
    """Connect to a destination cluster; if it does not answer, the next message for it tries again."""
    cluster = Cluster(bootstrap, **kafka.options(name))
    sender = Sender(cluster, recalls=True, name=name)
    try:
        await cluster.start("")
        await sender.start()
    except aiokafka.errors.KafkaError as error:
        log.warning(
            "cluster %s at %s cannot be used: %s. Its messages are held. Check DELAY_CLUSTERS, and that its brokers "
            "are running.",
            name,
            bootstrap,
            await reason(bootstrap, kafka.options(name)) or error,
        )
    return DestinationCluster(cluster, sender)
