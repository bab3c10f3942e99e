"""Kafka on the wire: metadata that creates no topic, and a sender whose partitions do not wait for one another.

`fast_path` converts plain messages from record batches to rows, and from rows to record batches.
"""

from app.kafka.metadata.cluster import Cluster
from app.kafka.produce.batch import Ack, Batch
from app.kafka.produce.sender import Sender

__all__ = ["Ack", "Batch", "Cluster", "Sender"]
