"""Kafka on the wire: metadata that creates no topic, and a sender whose partitions don't wait for one another."""

from app.kafka.batch import Batch
from app.kafka.cluster import Cluster
from app.kafka.sender import Ack, Sender

__all__ = ["Ack", "Batch", "Cluster", "Sender"]
