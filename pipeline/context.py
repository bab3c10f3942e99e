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

    def lake(self, root: str, kind: str, as_of_ms: int | None = None) -> Lake:
        """Open this installation's table of `kind` in the directory `root`, as it is or was at a time (epoch ms).

        Raises LakeMismatch, LakeIncomplete, OptionInvalid, KafkaUnreachable.
        """
        lake = Lake(self.spark, root, kind, source_of(self.app_id, self.kafka.cluster_id(self.spark)), as_of_ms)
        if not lake.head.number:
            from pipeline.migration import migrate  # noqa: PLC0415 - it imports what needs a context

            migrate(lake)
        return lake
