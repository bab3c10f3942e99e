"""Sends requests to the home partitions of their ids, at most at a given rate."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from pipeline.home import home, paced
from pipeline.progress import progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.context import JobContext

#: Batches per second of a rate-limited task: each has a tenth of a second's requests.
_BEATS = 10
_MOST_ROWS = 10_000


def send(context: "JobContext", requests: DataFrame, inputs: tuple[str, ...], per_second: float | None = None) -> None:
    """Append requests to the request topic; return when all are acknowledged. A killed run may have sent some.

    Args:
        context: the installation.
        requests: rows with the columns id, key, value and headers.
        inputs: the installation's input topics, which decide the home partition of some ids.
        per_second: the maximum rate, or None.

    Raises TopicMissing, KafkaUnreachable.
    """
    spark, topic = context.spark, context.topic("requests")
    partitions = len(context.kafka.ends(spark, topic)[topic])
    places, settings = home(F.col("id"), inputs, partitions), {}
    if per_second is not None:
        tasks = spark.sparkContext.defaultParallelism  # the tasks that run at the same time get equal shares
        requests, per_second = requests.repartition(tasks), per_second / tasks
        places = paced(places, per_second)
        settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(
            max(1, min(_MOST_ROWS, int(per_second / _BEATS)))
        )
        settings["spark.sql.execution.pandas.udf.buffer.size"] = (
            "8"  # Python must not collect rows before it passes them on
        )
    placed = requests.select("key", "value", "headers", places.alias("partition"))
    with using(spark, settings), progress(spark, "send"):
        context.kafka.write(placed, topic)


def input_topics(context: "JobContext", others: str) -> tuple[str, ...]:
    """Return an installation's input topics; `others` is a list as in DELAY_INPUTS, with or without dialects."""
    named = (each.partition("=")[0].strip() for each in others.split(","))
    return (context.topic("requests"), *filter(None, named))


@contextmanager
def using(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session for a block, and restore the previous ones afterwards."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
