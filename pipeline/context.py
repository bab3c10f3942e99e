"""The context of a job: a Spark session, a Kafka cluster, and an installation of Punctual on it."""

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from pipeline.kafka import Kafka
from pipeline.lake import Lake, source_of
from pipeline.summary import Summary


@dataclass(frozen=True)
class JobContext:
    """A job's session, cluster and installation.

    Attributes:
        spark: the session.
        kafka: the cluster.
        app_id: the installation's `DELAY_APP_ID`, the prefix of its topics.
        summary: the counts and offsets of this run, for `--json`.
    """

    spark: SparkSession
    kafka: Kafka
    app_id: str
    summary: Summary = field(default_factory=Summary)

    def topic(self, name: str) -> str:
        """Return the full name of one of the installation's topics."""
        return f"{self.app_id}-{name}"

    def lake(self, root: str, kind: str) -> Lake:
        """Open this installation's tables of `kind` below `root`. Raises LakeMismatch, KafkaUnreachable."""
        return Lake(self.spark, root, kind, source_of(self.app_id, self.kafka.cluster_id(self.spark)))
