"""Requests on their way to the worker: each to the home partition of its id, no faster than wanted."""

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

#: So often in a second a paced task sends: what is sent at once is a tenth of what is sent in a second.
_BEATS = 10
_MOST_ROWS = 10_000


def send(context: "JobContext", requests: DataFrame, inputs: tuple[str, ...], per_second: float | None = None) -> None:
    """Append requests, columns id, key, value and headers, to the request topic, at most so many a second.

    Returns when all of them are acknowledged; what is killed has sent some. `inputs` are the installation's inputs.

    Raises TopicMissing, KafkaUnreachable.
    """
    spark, topic = context.spark, context.topic("requests")
    partitions = len(context.kafka.ends(spark, topic)[topic])
    places, settings = home(F.col("id"), inputs, partitions), {}
    if per_second is not None:
        tasks = spark.sparkContext.defaultParallelism  # as many as run at once, and each has as much to send
        requests, per_second = requests.repartition(tasks), per_second / tasks
        places = paced(places, per_second)
        settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(
            max(1, min(_MOST_ROWS, int(per_second / _BEATS)))
        )
        settings["spark.sql.execution.pandas.udf.buffer.size"] = "8"  # Python must not collect what it has let go
    placed = requests.select("key", "value", "headers", places.alias("partition"))
    with using(spark, settings), progress(spark, "send"):
        context.kafka.write(placed, topic)


def input_topics(context: "JobContext", others: str) -> tuple[str, ...]:
    """Return an installation's input topics, `others` as DELAY_INPUTS has them: `topic=dialect,…`, or topics."""
    named = (each.partition("=")[0].strip() for each in others.split(","))
    return (context.topic("requests"), *filter(None, named))


@contextmanager
def using(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Run a block under settings of the session, and put back what was set before."""
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
