"""What a job works with: a Spark session, a Kafka cluster, an installation of Punctual on it."""

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from pipeline.kafka import Kafka
from pipeline.lake import Lake, source_of
from pipeline.summary import Summary


@dataclass(frozen=True)
class JobContext:
    """`app_id` is the installation's `DELAY_APP_ID`, with which its topics' names begin; `summary` tells of the run."""

    spark: SparkSession
    kafka: Kafka
    app_id: str
    summary: Summary = field(default_factory=Summary)

    def topic(self, name: str) -> str:
        """Return the full name of one of the installation's topics."""
        return f"{self.app_id}-{name}"

    def lake(self, root: str, kind: str) -> Lake:
        """Open tables that come from this installation. Raises LakeMismatch, KafkaUnreachable."""
        return Lake(self.spark, root, kind, source_of(self.app_id, self.kafka.cluster_id(self.spark)))
