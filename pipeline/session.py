"""Spark sessions with the Kafka connector: on this machine, or in the cluster that spark-submit has chosen."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from pipeline import py4j_gateway
from pipeline.errors import ConnectorMissing
from pipeline.jars import connector_jars

#: Everything on the loopback interface, times in UTC, as many shuffle partitions as a machine has use for.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # Each reading has consumers of its own: there is no use in keeping them, and all that they have fetched, for 5 min.
    **{
        f"spark.kafka.consumer.{pool}.{setting}": "1s"
        for pool in ("cache", "fetchedData.cache")
        for setting in ("timeout", "evictorThreadRunInterval")
    },
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # headers of one name are usual: see headers.py
    # Else each column that is made notes where: several calls to the JVM for one.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
#: They write each error in an expression to stderr, as a line of JSON with its stack; we say it in a sentence.
_TALKATIVE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


@contextmanager
def session(
    name: str, master: str = "local[*]", jars_dir: str | None = None, memory: str = "2g", **conf: str
) -> Iterator[SparkSession]:
    """Return a session called `name`, which ends with the block.

    Under spark-submit it is that one's, and `master`, `jars_dir` and `memory` are its options, not ours. Otherwise a
    JVM is started here, whose heap is `memory`; keys of `conf` have underscores for dots.

    Raises JavaUnsupported or ConnectorMissing.
    """
    settings = _ALWAYS | {key.replace("_", "."): value for key, value in conf.items()}
    for talkative in _TALKATIVE:
        PySparkLogger.getLogger(talkative).setLevel(logging.CRITICAL)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        yield _checked(_built(name, settings))
        return
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = _LOCAL | settings | {"spark.master": master}
    with tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as directory:
        process = py4j_gateway.start(settings, connector_jars(jars_dir), memory, Path(directory))
        try:
            spark = _built(name, settings)
            try:
                _work_in(spark, Path.cwd())
                yield _checked(spark)
            finally:
                spark.stop()
                _forget_gateway()
        finally:
            py4j_gateway.stop(process)


def _built(name: str, settings: dict[str, str]) -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.appName(name).getOrCreate()


def _work_in(spark: SparkSession, directory: Path) -> None:
    """Have relative paths begin at `directory`, not where the JVM runs."""
    files = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001 - PySpark has no public way
    conf = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    files.FileSystem.getLocal(conf).setWorkingDirectory(files.Path(str(directory)))


def _checked(spark: SparkSession) -> SparkSession:
    try:
        spark._jvm.java.lang.Class.forName(  # type: ignore[union-attr]  # noqa: SLF001 - PySpark has no public way
            "org.apache.spark.sql.kafka010.KafkaSourceProvider",
            True,  # noqa: FBT003 - Java's
            spark._jvm.java.lang.Thread.currentThread().getContextClassLoader(),  # type: ignore[union-attr]  # noqa: SLF001
        )
    except Exception as error:
        raise ConnectorMissing(
            "Spark has no Kafka connector. Give spark-submit --packages "
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, or its jars with --jars."
        ) from error
    return spark


def _forget_gateway() -> None:
    """Let the next session of this process start its own JVM: PySpark keeps the first one's for good."""
    from pyspark import SparkContext  # noqa: PLC0415 - beside what it is used for

    if SparkContext._gateway is not None:  # noqa: SLF001 - PySpark has no public way
        SparkContext._gateway.shutdown()  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
